//! A mixed workload between two ends, with every byte, value and completion checked at its end.

use crate::arena::Arena;
use crate::end::wr;
use crate::pair::{Fate, Pair, Way};
use ferroce_core::{SendFlags, SendOp, WcOpcode, WcStatus};
use ferroce_wire::Packet;

/// One request.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    Send(u32),
    SendImm(u32),
    Write(u32),
    WriteImm(u32),
    Read(u32),
    FetchAdd,
}

/// What is asked of `a`, and of `b` at the same time.
pub struct Workload {
    jobs: [Vec<Job>; 2],
}

/// Where things lie in both arenas.
const COUNTER: u64 = 0;
const ATOMICS: u64 = 4096;
const SLOTS: u64 = 1 << 20;
/// Room for one message.
const SLOT: u64 = 1 << 14;
/// Bytes an arena needs for a workload of so many jobs at each end.
pub fn arena_for(jobs: usize) -> usize {
    (SLOTS + 3 * SLOT * (jobs as u64 + 1)) as usize
}

/// Places in the arena for the answer to the own request `n`, for what the peer's request `n` brings, and the source
/// of READs.
fn own(n: usize) -> u64 {
    SLOTS + 3 * SLOT * n as u64
}

fn peers(n: usize) -> u64 {
    own(n) + SLOT
}

fn received(n: usize) -> u64 {
    own(n) + 2 * SLOT
}

/// The bytes of message `n` of the end `side`.
fn message(side: usize, n: usize, len: u32) -> Vec<u8> {
    (0..len as usize).map(|i| (i * 31 + n * 17 + side * 101 + (i >> 8)) as u8).collect()
}

impl Workload {
    pub fn new(a: Vec<Job>, b: Vec<Job>) -> Workload {
        Workload { jobs: [a, b] }
    }

    /// Posts everything at once, runs until all is quiet, and checks.
    #[track_caller]
    pub fn run(&self, pair: &mut Pair) {
        for side in 0..2 {
            self.post(pair, side);
        }
        pair.run();
        for side in 0..2 {
            self.check(pair, side);
        }
    }

    fn post(&self, pair: &mut Pair, side: usize) {
        let now = pair.now;
        let (end, peer) = match side {
            0 => (&mut pair.a, &mut pair.b),
            _ => (&mut pair.b, &mut pair.a),
        };
        let rkey = peer.keys.rkey;
        for (n, job) in self.jobs[side].iter().enumerate() {
            let target = Arena::BASE + peers(n);
            let (op, len) = match *job {
                Job::Send(len) => (SendOp::Send, len),
                Job::SendImm(len) => (SendOp::SendImm { imm: (n as u32).to_be_bytes() }, len),
                Job::Write(len) => (SendOp::Write { va: target, rkey }, len),
                Job::WriteImm(len) => {
                    (SendOp::WriteImm { va: target, rkey, imm: (n as u32).to_be_bytes() }, len)
                }
                Job::Read(len) => (SendOp::Read { va: Arena::BASE + peers(n), rkey }, len),
                Job::FetchAdd => (SendOp::FetchAdd { va: Arena::BASE + COUNTER, rkey, add: 1 }, 8),
            };
            let bytes = message(side, n, len);
            let place = match job {
                Job::Read(_) => {
                    peer.memory.put(peers(n), &bytes);
                    own(n)
                }
                Job::FetchAdd => ATOMICS + 8 * n as u64,
                _ => {
                    end.memory.put(own(n), &bytes);
                    own(n)
                }
            };
            if matches!(job, Job::Send(_) | Job::SendImm(_) | Job::WriteImm(_)) {
                let sge = peer.sge(received(n), len.max(1));
                peer.post_recv(now, n as u64, &[sge]);
            }
            let sge = end.sge(place, len);
            let mut request = wr(n as u64, op, &[sge]);
            // Every third is unsignaled, but not the last.
            if n % 3 == 1 && n + 1 != self.jobs[side].len() {
                request.flags = SendFlags::empty();
            }
            end.post_send(now, request);
        }
    }

    #[track_caller]
    fn check(&self, pair: &mut Pair, side: usize) {
        let (end, peer) = match side {
            0 => (&mut pair.a, &mut pair.b),
            _ => (&mut pair.b, &mut pair.a),
        };
        let jobs = &self.jobs[side];
        let retired: u32 = end
            .completions
            .iter()
            .filter(|completion| completion.queue == ferroce_core::Queue::Send)
            .map(|completion| completion.retires)
            .sum();
        assert_eq!(retired as usize, jobs.len(), "each request is retired once");
        let expected: Vec<_> = (0..jobs.len())
            .filter(|n| n % 3 != 1 || n + 1 == jobs.len())
            .map(|n| (n as u64, WcStatus::Success))
            .collect();
        assert_eq!(end.sent(), expected, "in order, each once");
        let mut receives = peer.received().into_iter();
        let mut adds = 0;
        for (n, job) in jobs.iter().enumerate() {
            let (len, place) = match *job {
                Job::Send(len) | Job::SendImm(len) => (len, received(n)),
                Job::Write(len) | Job::WriteImm(len) => (len, peers(n)),
                Job::Read(len) => {
                    assert_eq!(
                        end.memory.get(own(n), len as usize),
                        message(side, n, len),
                        "READ {n} of {len}"
                    );
                    continue;
                }
                Job::FetchAdd => {
                    let original = end.memory.get(ATOMICS + 8 * n as u64, 8);
                    assert_eq!(original, u64::to_ne_bytes(adds), "atomic {n}");
                    adds += 1;
                    continue;
                }
            };
            assert_eq!(peer.memory.get(place, len as usize), message(side, n, len), "{job:?} {n}");
            let opcode = match job {
                Job::Send(_) | Job::SendImm(_) => WcOpcode::Recv,
                Job::WriteImm(_) => WcOpcode::RecvRdmaWithImm,
                _ => continue,
            };
            let wc = receives.next().expect("a receive completion");
            let expected = (n as u64, WcStatus::Success, opcode, len);
            assert_eq!((wc.wr_id, wc.status, wc.opcode, wc.byte_len), expected);
            if !matches!(job, Job::Send(_)) {
                assert_eq!(wc.imm, (n as u32).to_be_bytes());
            }
        }
        assert!(receives.next().is_none(), "no receive completes twice");
        assert_eq!(peer.memory.get(COUNTER, 8), u64::to_ne_bytes(adds));
    }
}

/// Chance, from a seed: the same seed gives the same faults.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// A link that drops, repeats at once or much later, delays and damages one packet in `n` each.
pub fn bad_link(seed: u64, n: u64) -> impl FnMut(Way, &Packet<'_>) -> Fate {
    let mut chance = Chance::new(seed);
    move |_, _| {
        if chance.one_in(n) {
            Fate::Drop
        } else if chance.one_in(n) {
            Fate::Duplicate
        } else if chance.one_in(n) {
            Fate::Late(chance.next() % 20_000)
        } else if chance.one_in(n) {
            Fate::Echo(chance.next() % 3_000_000)
        } else if chance.one_in(n) {
            Fate::Corrupt
        } else {
            Fate::Pass
        }
    }
}
