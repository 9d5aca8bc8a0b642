//! When the event that a CQ was asked for is raised: with the completion it waits for, or some completions or
//! microseconds later, where events are moderated (`ibv_modify_cq(3)`).

use ferroce_core::Nanos;

/// How events of a CQ are moderated. Zero in either switches moderation off, as on ConnectX.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moderation {
    /// Completions that an event stands for.
    pub count: u16,
    /// Microseconds that an event may be late, counted from the first completion that it stands for.
    pub period_us: u16,
}

/// The event that a CQ was asked for, if it was.
#[derive(Debug, Default)]
pub(crate) struct Notification {
    armed: Option<Armed>,
    moderation: Moderation,
    /// Completions that came for it.
    came: u16,
    /// When it is raised, however few came.
    due: Option<Nanos>,
}

/// What it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Armed {
    Any,
    SolicitedOnly,
}

/// What a completion does to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing.
    Nothing,
    /// It is to be raised now.
    Raise,
    /// It is to be raised then, unless more completions come before.
    Hold(Nanos),
}

impl Notification {
    /// Asks for one (`ibv_req_notify_cq(3)`).
    pub(crate) fn arm(&mut self, solicited_only: bool) {
        // A request for any completion is not narrowed by a later one for solicited ones.
        if !(solicited_only && self.armed == Some(Armed::Any)) {
            self.armed = Some(if solicited_only { Armed::SolicitedOnly } else { Armed::Any });
        }
    }

    /// A completion was added at `now`. An error counts as solicited.
    pub(crate) fn on_completion(&mut self, solicited: bool, now: Nanos) -> Verdict {
        match self.armed {
            Some(Armed::Any) => {}
            Some(Armed::SolicitedOnly) if solicited => {}
            _ => return Verdict::Nothing,
        }
        let Moderation { count, period_us } = self.moderation;
        self.came = self.came.saturating_add(1);
        if period_us == 0 || self.came >= count {
            self.disarm();
            return Verdict::Raise;
        }
        if self.due.is_some() {
            return Verdict::Nothing;
        }
        let due = now.saturating_add(u64::from(period_us) * NS_PER_US);
        self.due = Some(due);
        Verdict::Hold(due)
    }

    /// Whether it has waited long enough, and is to be raised.
    pub(crate) fn take_due(&mut self, now: Nanos) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.disarm();
        }
        is_due
    }

    /// Changes the moderation. Whether an event that was held is to be raised now.
    pub(crate) fn moderate(&mut self, moderation: Moderation) -> bool {
        self.moderation = moderation;
        let held = self.due.is_some();
        if held {
            self.disarm();
        }
        held
    }

    /// Nobody waits for it any more.
    pub(crate) fn disarm(&mut self) {
        self.armed = None;
        self.came = 0;
        self.due = None;
    }
}

const NS_PER_US: Nanos = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(count: u16, period_us: u16) -> Notification {
        let mut notification = Notification::default();
        assert!(!notification.moderate(Moderation { count, period_us }));
        notification.arm(false);
        notification
    }

    #[test]
    fn it_is_raised_once_for_each_time_it_was_asked_for() {
        let mut notification = Notification::default();
        assert_eq!(notification.on_completion(true, 0), Verdict::Nothing);
        notification.arm(false);
        assert_eq!(notification.on_completion(false, 0), Verdict::Raise);
        assert_eq!(notification.on_completion(false, 0), Verdict::Nothing);
    }

    #[test]
    fn solicited_only_waits_for_a_solicited_one_and_does_not_narrow_a_request_for_any() {
        let mut notification = Notification::default();
        notification.arm(true);
        assert_eq!(notification.on_completion(false, 0), Verdict::Nothing);
        assert_eq!(notification.on_completion(true, 0), Verdict::Raise);
        notification.arm(false);
        notification.arm(true);
        assert_eq!(notification.on_completion(false, 0), Verdict::Raise);
    }

    #[test]
    fn moderation_needs_a_count_and_a_period() {
        for (count, period_us) in [(0, 0), (1, 100), (100, 0), (0, 100)] {
            assert_eq!(
                armed(count, period_us).on_completion(false, 0),
                Verdict::Raise,
                "{count} {period_us}"
            );
        }
    }

    #[test]
    fn it_is_held_until_enough_have_come() {
        let mut notification = armed(3, 10);
        assert_eq!(notification.on_completion(false, 5), Verdict::Hold(10_005));
        assert_eq!(notification.on_completion(false, 6), Verdict::Nothing);
        assert!(!notification.take_due(10_004));
        assert_eq!(notification.on_completion(false, 7), Verdict::Raise);
        assert!(!notification.take_due(10_005), "it was raised already");
    }

    #[test]
    fn it_is_held_no_longer_than_the_period() {
        let mut notification = armed(3, 10);
        assert_eq!(notification.on_completion(false, 5), Verdict::Hold(10_005));
        assert!(notification.take_due(10_005));
        assert!(!notification.take_due(20_000));
        // Those that came before do not count for the next one.
        notification.arm(false);
        assert_eq!(notification.on_completion(false, 30_000), Verdict::Hold(40_000));
    }

    #[test]
    fn a_change_of_the_moderation_raises_what_was_held() {
        let mut notification = armed(3, 10);
        assert_eq!(notification.on_completion(false, 5), Verdict::Hold(10_005));
        assert!(notification.moderate(Moderation::default()));
        assert!(!notification.moderate(Moderation::default()));
    }
}
