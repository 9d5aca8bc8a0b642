//! Two devices over a link, in virtual time. What the link does to a packet is the test's choice.

use crate::end::{End, Setup};
use ferroce_core::{Nanos, QpType, Remote};
use ferroce_wire::Packet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which way a packet travels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    AtoB,
    BtoA,
}

/// What happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Pass,
    Drop,
    Duplicate,
    /// Flips a bit of the payload or header.
    Corrupt,
    /// Arrives this much later, behind others.
    Late(Nanos),
    /// Arrives, and once more this much later.
    Echo(Nanos),
}

type Rule = Box<dyn FnMut(Way, &Packet<'_>) -> Fate>;

/// When it arrives, a number for its departure, which way, and the packet.
type Flight = (Nanos, u64, Way, Vec<u8>);

/// Two ends that are connected to each other.
pub struct Pair {
    pub a: End,
    pub b: End,
    pub now: Nanos,
    rule: Rule,
    /// Ordered by arrival, then by departure.
    flying: BinaryHeap<Reverse<Flight>>,
    sent: u64,
    /// One line for each packet, as it was sent.
    pub trace: Vec<String>,
    keeps_bytes: bool,
}

/// One way over the link.
const DELAY: Nanos = 2_000;

/// Steps after which a test that does not come to rest has failed.
const MAX_STEPS: usize = 2_000_000;

impl Pair {
    pub fn new() -> Pair {
        Pair::with(Setup::default(), Setup::default())
    }

    pub fn with(a: Setup, b: Setup) -> Pair {
        Pair::sized(a, b, 1 << 20)
    }

    pub fn sized(a: Setup, b: Setup, arena: usize) -> Pair {
        let mut pair = Pair {
            a: End::new(1, a, arena),
            b: End::new(2, b, arena),
            now: 0,
            rule: Box::new(|_, _| Fate::Pass),
            flying: BinaryHeap::new(),
            sent: 0,
            trace: Vec::new(),
            keeps_bytes: false,
        };
        pair.connect();
        if let (QpType::XrcIni, Some(srqn)) = (pair.a.setup.qp_type, pair.b.srqn) {
            pair.a.remote = Remote::Srq(srqn);
        }
        pair
    }

    /// INIT to RTS on both ends.
    pub fn connect(&mut self) {
        let (a, b) = (&mut self.a, &mut self.b);
        a.enter_rtr(b.address, b.qpn);
        b.enter_rtr(a.address, a.qpn);
        a.enter_rts();
        b.enter_rts();
    }

    /// From now on a line of the trace ends with the packet's bytes.
    pub fn keep_bytes(&mut self) {
        self.keeps_bytes = true;
    }

    /// Sets what happens to packets from now on.
    pub fn rule(&mut self, rule: impl FnMut(Way, &Packet<'_>) -> Fate + 'static) {
        self.rule = Box::new(rule);
    }

    /// Runs until nothing is in flight, nothing is to be sent and no deadline is left; or until `until`.
    #[track_caller]
    pub fn run_until(&mut self, until: Nanos) {
        for _ in 0..MAX_STEPS {
            self.send(Way::AtoB);
            self.send(Way::BtoA);
            let arrival = self.flying.peek().map(|Reverse((at, ..))| *at);
            let deadline =
                [self.a.device.poll_timeout(), self.b.device.poll_timeout()].into_iter().flatten().min();
            let Some(next) = arrival.into_iter().chain(deadline).min().filter(|next| *next <= until) else {
                if until != Nanos::MAX {
                    self.now = self.now.max(until);
                }
                return;
            };
            self.now = self.now.max(next);
            self.deliver();
            self.a.device.handle_timeout(self.now);
            self.b.device.handle_timeout(self.now);
        }
        panic!("no rest after {MAX_STEPS} steps; last packets: {:#?}", &self.trace[self.trace.len() - 40..]);
    }

    #[track_caller]
    pub fn run(&mut self) {
        self.run_until(Nanos::MAX);
        assert_eq!(self.a.device.poll_timeout(), None);
        assert_eq!(self.b.device.poll_timeout(), None);
    }

    fn send(&mut self, way: Way) {
        let end = match way {
            Way::AtoB => &mut self.a,
            Way::BtoA => &mut self.b,
        };
        for mut bytes in end.transmit(self.now) {
            let packet = Packet::parse(&bytes).expect("what a device sends is a packet");
            let fate = (self.rule)(way, &packet);
            let mut line = format!("{} {way:?} {packet} {fate:?}", self.now);
            if self.keeps_bytes {
                line.push(' ');
                line.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
            }
            self.trace.push(line);
            if fate == Fate::Corrupt {
                // The PSN's lowest bit: only the ICRC can tell.
                bytes[11] ^= 1;
            }
            let delays = match fate {
                Fate::Drop => vec![],
                Fate::Pass | Fate::Corrupt => vec![0],
                Fate::Duplicate => vec![0, 0],
                Fate::Late(by) => vec![by],
                Fate::Echo(by) => vec![0, by],
            };
            for delay in delays {
                self.sent += 1;
                self.flying.push(Reverse((self.now + DELAY + delay, self.sent, way, bytes.clone())));
            }
        }
    }

    /// Delivers what has arrived by now.
    fn deliver(&mut self) {
        while let Some(Reverse((at, ..))) = self.flying.peek() {
            if *at > self.now {
                return;
            }
            let Some(Reverse((_, _, way, bytes))) = self.flying.pop() else { return };
            match way {
                Way::AtoB => self.b.handle_packet(self.now, self.a.address, &bytes),
                Way::BtoA => self.a.handle_packet(self.now, self.b.address, &bytes),
            }
        }
    }

    /// The trace's lines that contain `words`.
    pub fn traced(&self, words: &str) -> usize {
        self.trace.iter().filter(|line| line.contains(words)).count()
    }
}
