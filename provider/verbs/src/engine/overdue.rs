//! Deadlines that have come while packets wait in the socket.
//!
//! What a deadline waits for may lie there already: this process may just have got its processor back, or have so many
//! busy QPs that their answers fill the socket. A card would have handled what has come before it looked at the clock.

/// Packets received since a deadline has come that was not acted upon yet.
#[derive(Default, Debug)]
pub(super) struct Overdue {
    received: u64,
}

impl Overdue {
    /// After a round that received so many packets: whether to act upon the deadlines that have come. That is when the
    /// socket is empty, or as many packets were taken off it as it can have held when the first of them came: somebody
    /// may be sending all the time.
    pub(super) fn acts(&mut self, has_come: bool, received: usize, socket_holds: u64) -> bool {
        self.received = if has_come { self.received + received as u64 } else { 0 };
        let acts = has_come && (received == 0 || self.received >= socket_holds);
        if acts {
            self.received = 0;
        }
        acts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_socket_comes_before_the_deadline() {
        let mut overdue = Overdue::default();
        assert!(!overdue.acts(false, 0, 100), "nothing is due");
        assert!(!overdue.acts(true, 60, 100));
        assert!(overdue.acts(true, 0, 100), "the socket is empty");
        assert!(!overdue.acts(true, 60, 100));
        assert!(!overdue.acts(false, 60, 100), "what was waited for has come");
        assert!(!overdue.acts(true, 60, 100), "another deadline");
    }

    #[test]
    fn a_socket_that_never_gets_empty_holds_no_deadline_for_ever() {
        let mut overdue = Overdue::default();
        let rounds: Vec<bool> = (0..6).map(|_| overdue.acts(true, 40, 100)).collect();
        assert_eq!(rounds, [false, false, true, false, false, true]);
    }
}
