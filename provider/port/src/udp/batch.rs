//! Staged packets, in runs.

use ferroce_wire::ICRC_LEN;

use super::sender::RouteId;

/// Outgoing packets, back to back in one buffer, and the runs that they form.
pub(super) struct Batch {
    bytes: Box<[u8]>,
    used: usize,
    packets: usize,
    max_packets: usize,
    max_bytes: usize,
    runs: Vec<Run>,
    reserved: Option<Reserved>,
}

/// Consecutive packets of one path and one length, of which the last may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// The path they take.
    pub(super) route: RouteId,
    /// Where the first begins in the batch's buffer.
    pub(super) start: usize,
    /// Length of all of them, in bytes.
    pub(super) len: usize,
    /// Length of each but the last.
    pub(super) segment: usize,
    /// How many.
    pub(super) count: usize,
}

/// A packet that has room but is not complete.
#[derive(Clone, Copy)]
struct Reserved {
    route: RouteId,
    len: usize,
    joins: bool,
}

impl Batch {
    /// A batch in which no run begins after `max_packets` packets or `max_bytes` bytes.
    pub(super) fn new(max_packets: usize, max_bytes: usize) -> Batch {
        let (max_packets, max_bytes) = (max_packets.max(1), max_bytes.max(1));
        Batch {
            // Room for the run that begins last.
            bytes: vec![0; max_bytes + MAX_PACKET].into(),
            used: 0,
            packets: 0,
            max_packets,
            max_bytes,
            runs: Vec::with_capacity(max_packets),
            reserved: None,
        }
    }

    /// Room for the next packet, of `len` bytes with its ICRC. It joins the last run if that is of the same route and
    /// has fewer than `run_limit` packets; otherwise it begins a run, unless the batch is full.
    pub(super) fn reserve(&mut self, route: RouteId, run_limit: usize, len: usize) -> Option<&mut [u8]> {
        assert!((ICRC_LEN..=MAX_PACKET).contains(&len), "no UDP datagram with an ICRC has {len} bytes");
        let joins = self.runs.last().is_some_and(|run| run.route == route && run.takes(len, run_limit));
        if !joins && (self.packets >= self.max_packets || self.used >= self.max_bytes) {
            return None;
        }
        self.reserved = Some(Reserved { route, len, joins });
        Some(&mut self.bytes[self.used..self.used + len])
    }

    /// Whether the reserved packet joins the last run.
    pub(super) fn continues(&self) -> bool {
        self.reserved.is_some_and(|reserved| reserved.joins)
    }

    /// The reserved packet stays. Returns its route, its index in its run, and its bytes.
    pub(super) fn commit(&mut self) -> (RouteId, usize, &mut [u8]) {
        let Reserved { route, len, joins } = self.reserved.take().expect("commit follows reserve");
        let start = self.used;
        self.used += len;
        self.packets += 1;
        let index = match self.runs.last_mut() {
            Some(run) if joins => {
                run.len += len;
                run.count += 1;
                run.count - 1
            }
            _ => {
                self.runs.push(Run { route, start, len, segment: len, count: 1 });
                0
            }
        };
        (route, index, &mut self.bytes[start..start + len])
    }

    /// The runs, in the order in which they are to be sent.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The bytes of a run.
    pub(super) fn bytes(&self, run: &Run) -> &[u8] {
        &self.bytes[run.start..run.start + run.len]
    }

    /// The packets of a run.
    pub(super) fn packets_mut(&mut self, run: &Run) -> impl Iterator<Item = &mut [u8]> {
        self.bytes[run.start..run.start + run.len].chunks_mut(run.segment)
    }

    /// Forgets all packets.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.packets = 0;
        self.runs.clear();
        self.reserved = None;
    }
}

impl Run {
    fn takes(&self, len: usize, limit: usize) -> bool {
        let is_open = self.len == self.count * self.segment;
        is_open && self.count < limit && len <= self.segment && self.len + len <= MAX_PACKET
    }
}

/// The longest UDP payload over IPv4, in bytes; of a packet, and of a run as well.
pub const MAX_PACKET: usize = 65_535 - 20 - 8;

#[cfg(test)]
mod tests {
    use super::*;

    const A: RouteId = RouteId(0);
    const B: RouteId = RouteId(1);

    fn push(batch: &mut Batch, route: RouteId, run_limit: usize, len: usize) -> usize {
        batch.reserve(route, run_limit, len).expect("the batch has room");
        batch.commit().1
    }

    /// (route, packets, bytes) of the runs that packets of these routes and lengths form.
    fn runs(limit: usize, packets: &[(RouteId, usize)]) -> Vec<(RouteId, usize, usize)> {
        let mut batch = Batch::new(1000, 1 << 20);
        for &(route, len) in packets {
            push(&mut batch, route, limit, len);
        }
        batch.runs().iter().map(|r| (r.route, r.count, r.len)).collect()
    }

    #[test]
    fn packets_of_one_length_form_a_run_that_a_shorter_one_ends() {
        let packets = [(A, 100), (A, 100), (A, 40), (A, 40), (A, 100)];
        assert_eq!(runs(64, &packets), [(A, 3, 240), (A, 1, 40), (A, 1, 100)]);
    }

    #[test]
    fn another_path_begins_a_run() {
        assert_eq!(runs(64, &[(A, 9), (B, 9), (B, 9), (A, 9)]), [(A, 1, 9), (B, 2, 18), (A, 1, 9)]);
    }

    #[test]
    fn a_run_ends_at_its_limits() {
        assert_eq!(runs(2, &[(A, 9); 5]), [(A, 2, 18), (A, 2, 18), (A, 1, 9)]);
        assert_eq!(runs(1, &[(A, 9); 2]), [(A, 1, 9), (A, 1, 9)]);
        assert_eq!(runs(64, &[(A, 4136); 16]), [(A, 15, 62_040), (A, 1, 4136)]);
    }

    #[test]
    fn indices_count_from_the_runs_start() {
        let mut batch = Batch::new(10, 1000);
        let packets = [(A, 50), (A, 50), (B, 50), (B, 20), (B, 20)];
        assert_eq!(packets.map(|(route, len)| push(&mut batch, route, 64, len)), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn what_is_reserved_but_not_committed_is_not_sent() {
        let mut batch = Batch::new(10, 1000);
        batch.reserve(A, 64, 50).unwrap().fill(1);
        batch.reserve(B, 64, 60).unwrap().fill(2);
        batch.commit();
        assert_eq!(batch.runs().len(), 1);
        let run = batch.runs()[0];
        assert_eq!((run.route, batch.bytes(&run)), (B, &[2; 60][..]));
    }

    #[test]
    fn a_full_batch_takes_what_joins_its_last_run_and_nothing_else() {
        for mut batch in [Batch::new(2, 1 << 20), Batch::new(1000, 200)] {
            push(&mut batch, B, 64, 100);
            push(&mut batch, A, 64, 100);
            assert!(batch.reserve(B, 64, 100).is_none());
            assert!(batch.reserve(A, 64, 101).is_none());
            assert_eq!(push(&mut batch, A, 64, 100), 1);
            batch.clear();
            push(&mut batch, B, 64, 100);
        }
    }

    #[test]
    fn the_last_run_has_room_for_its_full_length() {
        let mut batch = Batch::new(1000, 4137);
        push(&mut batch, B, 64, 4136);
        for _ in 0..15 {
            push(&mut batch, A, 64, 4136);
        }
        assert!(batch.reserve(A, 64, 4136).is_none());
        let mut batch = Batch::new(1000, 5);
        push(&mut batch, B, 64, 4);
        push(&mut batch, A, 64, MAX_PACKET);
    }
}
