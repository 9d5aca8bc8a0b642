//! Plans from seeds.
//!
//! Each seed draws a temper first: which kinds of things its plan has at all. Plans without faults are held to more
//! than others, and plans with few kinds of faults go deeper into those.

use super::plan::{
    Connect, End, Expose, Flaw, Guise, Modify, Noise, Op, Plan, Receive, Send, Service, Shape, Step,
};
use crate::chance::Chance;
use crate::egress::EcnMarking;
use crate::link::LinkConfig;
use crate::pfc::Pfc;
use crate::rules::RandomFaults;
use ferroce_core::Nanos;

/// The plan of a seed, whose random phase lasts for about `length_ns`.
pub fn generate(seed: u64, length_ns: Nanos) -> Plan {
    let mut chance = Chance::of_part(seed, PLAN_PART);
    let temper = Temper::draw(&mut chance);
    let shape = shape(&mut chance);
    let mut generator =
        Generator { chance, temper, shape, steps: Vec::new(), connections: Vec::new(), exposed: 0 };
    generator.open();
    let mut left = length_ns;
    // Each round adds a step, so this ends.
    while left > 0 && generator.steps.len() < MAX_STEPS {
        generator.step();
        if let Some(Step::Wait { ns }) = generator.steps.last() {
            left = left.saturating_sub(*ns);
        }
    }
    let Generator { shape, steps, .. } = generator;
    Plan { seed, shape, steps }
}

/// Which kinds of things a plan has.
#[derive(Debug)]
struct Temper {
    /// Frames are lost and worse.
    faults: bool,
    /// One in so many work requests is wrong; 0 for none.
    flaws: u64,
    /// QPs are modified in all ways.
    modifies: bool,
    /// Regions are deregistered.
    deregisters: bool,
    /// Processes die.
    deaths: bool,
    /// Links go down.
    links: bool,
    /// CQs overrun.
    overruns: bool,
    /// Others send packets.
    noise: bool,
    /// QPs are exposed to a peer that sends anything.
    attacks: bool,
    /// Receive WQEs come late or not at all.
    starves: bool,
    /// Ends repeat selectively.
    selective: bool,
    /// Ends share SRQs.
    srqs: bool,
    /// Ends bind memory windows.
    windows: bool,
    /// The services there are.
    services: Vec<Service>,
    /// The operations there are.
    ops: Vec<Op>,
}

impl Temper {
    fn draw(chance: &mut Chance) -> Temper {
        let kind = chance.below(10);
        let is_wild = kind >= 5;
        let mut some = |wanted: bool| wanted && chance.one_in(2);
        let (modifies, deregisters, deaths) = (some(is_wild), some(is_wild), some(is_wild));
        let (links, overruns, noise, flaws) = (some(is_wild), some(is_wild), some(is_wild), some(is_wild));
        let attacks = some(is_wild);
        let starves = some(true);
        let services = match chance.below(10) {
            0 => vec![Service::Uc],
            1 => vec![Service::Ud],
            2 => vec![Service::Xrc],
            3 => vec![Service::Rc, Service::Uc, Service::Ud, Service::Xrc],
            4 => vec![Service::Rc, Service::Xrc],
            _ => vec![Service::Rc],
        };
        let all = [Op::Send, Op::SendImm, Op::Write, Op::WriteImm, Op::Read, Op::FetchAdd, Op::CompareSwap];
        let mut ops: Vec<Op> = all.into_iter().filter(|_| chance.below(4) > 0).collect();
        let windows = chance.one_in(3);
        if windows {
            ops.extend([Op::Bind, Op::SendInvalidate]);
            ops.extend((kind >= 5).then_some(Op::LocalInvalidate));
        }
        ops.push(*chance.pick(&[Op::Send, Op::Write]));
        Temper {
            faults: kind >= 2,
            flaws: if flaws { chance.between(10, 60) } else { 0 },
            modifies,
            deregisters,
            deaths,
            links,
            overruns,
            noise,
            attacks,
            starves,
            selective: chance.one_in(4),
            srqs: chance.one_in(3),
            windows,
            services,
            ops,
        }
    }
}

struct Generator {
    chance: Chance,
    temper: Temper,
    shape: Shape,
    steps: Vec<Step>,
    connections: Vec<Connect>,
    /// QPs exposed to a peer that sends anything.
    exposed: u32,
}

impl Generator {
    /// What a plan begins with: some connections, and receives for them.
    fn open(&mut self) {
        for _ in 0..self.chance.between(1, 4) {
            self.connect();
        }
        for connection in self.connections.clone() {
            for side in 0..2 {
                for _ in 0..self.chance.between(0, 8) {
                    self.receive(End { connection: connection.number, side });
                }
            }
        }
    }

    fn step(&mut self) {
        match self.chance.below(1000) {
            0..400 => self.send(),
            400..620 => {
                let end = self.end();
                self.receive(end);
            }
            800..860 if self.temper.attacks => self.attack(),
            620..860 => {
                let ns = self.duration(MAX_WAIT_NS);
                self.steps.push(Step::Wait { ns });
            }
            860..875 if self.connections.len() < MAX_CONNECTIONS => self.connect(),
            875..920 => self.faults(),
            920..950 if self.temper.modifies => {
                let mask = (self.chance.bits() & self.chance.bits()) as u32 & 0x3ff_ffff;
                let leap = Modify::Leap { to: self.chance.below(7) as u8, mask };
                let to = *self.chance.pick(&[
                    Modify::Error,
                    Modify::Drain,
                    Modify::Drain,
                    Modify::Resume,
                    Modify::Resume,
                    Modify::Reset,
                    Modify::Reconnect,
                    Modify::Reconnect,
                    Modify::Destroy,
                    Modify::Nonsense,
                    leap,
                ]);
                let end = self.end();
                self.steps.push(Step::Modify { end, to });
            }
            950..956 if self.temper.deregisters => {
                let (host, pick) = (self.host(), self.chance.bits() as u32);
                self.steps.push(Step::Deregister { host, pick });
            }
            956..960 if self.temper.deaths => {
                let host = self.host();
                self.steps.push(Step::Restart { host });
            }
            960..968 if self.temper.links => {
                let (host, up) = (self.host(), self.chance.one_in(2));
                self.steps.push(Step::Link { host, up });
            }
            968..971 if self.temper.overruns => {
                let (end, receive) = (self.end(), self.chance.one_in(2));
                self.steps.push(Step::Overrun { end, receive });
            }
            971..980 if self.temper.srqs => {
                let (end, limit) = (self.end(), self.chance.below(6) as u8);
                self.steps.push(Step::Limit { end, limit });
            }
            980..1000 if self.temper.noise => self.noise(),
            _ => self.send(),
        }
    }

    /// An exposed QP is made, attacked, or changed.
    fn attack(&mut self) {
        let prey = self.chance.between(1, u64::from(self.exposed.max(1))) as u32;
        let salt = self.chance.bits() as u32;
        let step = match self.chance.below(20) {
            0..2 if self.exposed < MAX_EXPOSED => self.expose(),
            _ if self.exposed == 0 => self.expose(),
            0..7 => Step::Twist { prey, salt },
            _ => Step::Attack { prey, packets: self.chance.between(1, 12) as u8, salt },
        };
        self.steps.push(step);
    }

    fn expose(&mut self) -> Step {
        self.exposed += 1;
        let service = *self.chance.pick(&[
            Service::Rc,
            Service::Rc,
            Service::Rc,
            Service::Uc,
            Service::Ud,
            Service::Xrc,
        ]);
        Step::Expose(Expose {
            number: self.exposed,
            host: self.host(),
            service,
            side: self.chance.below(2) as u8,
            mtu: *self.chance.pick(&[256, 256, 1024, 4096]),
            psns: [0, 1].map(|_| self.chance.bits() as u32 & 0xff_ffff),
            timeout: *self.chance.pick(&[8, 10, 12]),
            retry_cnt: *self.chance.pick(&[7, 3, 0]),
            rd_atomic: [0, 1].map(|_| *self.chance.pick(&[1, 2, 16])),
            ipv6: self.chance.one_in(3),
            selective: self.chance.one_in(3),
            work: [0, 1].map(|_| self.chance.below(8) as u8),
        })
    }

    fn connect(&mut self) {
        let service = *self.chance.pick(&self.temper.services);
        // Most PSNs are far from where they wrap; these are not.
        let psns = [0, 1].map(|_| {
            if self.chance.one_in(2) {
                (Chance::below(&mut self.chance, 40) as u32).wrapping_sub(30) & 0xff_ffff
            } else {
                self.chance.below(1 << 24) as u32
            }
        });
        let connect = Connect {
            number: self.connections.len() as u32 + 1,
            hosts: [self.host(), self.host()],
            service,
            mtu: *self.chance.pick(&[256, 512, 1024, 1024, 2048, 4096, 4096]),
            psns,
            timeout: *self.chance.pick(&[8, 10, 11, 12, 12, 13, 14]),
            retry_cnt: *self.chance.pick(&[7, 7, 7, 6, 5, 3, 1, 0]),
            rnr_retry: *self.chance.pick(&[7, 7, 7, 7, 6, 3, 0]),
            min_rnr_timer: *self.chance.pick(&[1, 1, 2, 5, 8, 12, 16]),
            rd_atomic: [0, 1].map(|_| *self.chance.pick(&[1, 1, 2, 4, 16])),
            sig_all: [0, 1].map(|_| self.chance.one_in(4)),
            pd: self.chance.between(1, 2) as u8,
            traffic_class: *self.chance.pick(&[26 << 2 | 2, 26 << 2 | 2, 0, 46 << 2 | 1]),
            ipv6: self.chance.one_in(3),
            late: self.chance.one_in(8),
            selective: self.temper.selective && self.chance.below(4) > 0,
            srq: [0, 1].map(|_| if self.temper.srqs { self.chance.below(3) as u8 } else { 0 }),
        };
        self.connections.push(connect);
        self.steps.push(Step::Connect(connect));
    }

    fn send(&mut self) {
        let end = self.end();
        let op = *self.chance.pick(&self.temper.ops);
        let flaw = if self.temper.flaws > 0 && self.chance.one_in(self.temper.flaws) {
            *self.chance.pick(&[
                Flaw::BadRkey,
                Flaw::OutOfRange,
                Flaw::NoRight,
                Flaw::OtherPd,
                Flaw::Misaligned,
                Flaw::BadLkey,
                Flaw::BadQkey,
                Flaw::Unbound,
            ])
        } else {
            Flaw::None
        };
        let len = self.length(end);
        if op.consumes_receive() && !self.temper.starves {
            // Before the message, so that there is one when it comes.
            let peer = End { side: 1 - end.side, ..end };
            // Whoever shares an SRQ does not know whose message comes.
            let is_shared = self.temper.srqs || self.temper.services.contains(&Service::Xrc);
            let len = if is_shared { LONGEST } else { len.max(1) };
            self.steps.push(Step::Receive(Receive { end: peer, len, sges: 1, bad_lkey: false }));
        }
        self.steps.push(Step::Send(Send {
            end,
            op,
            len,
            sges: self.chance.between(0, 4) as u8,
            signaled: !self.chance.one_in(3),
            fence: self.chance.one_in(8),
            solicited: self.chance.one_in(4),
            window: self.temper.windows && self.chance.one_in(2),
            flaw,
        }));
    }

    fn receive(&mut self, end: End) {
        // Without starving, receives are posted with the messages that need them, and with their length.
        if !self.temper.starves {
            return;
        }
        let wrong = self.temper.flaws > 0 && self.chance.one_in(self.temper.flaws);
        let bad_lkey = wrong && self.chance.one_in(2);
        let len = if wrong { self.length(end) } else { LONGEST };
        let sges = self.chance.between(1, 4) as u8;
        self.steps.push(Step::Receive(Receive { end, len, sges, bad_lkey }));
    }

    fn faults(&mut self) {
        if !self.temper.faults {
            return;
        }
        let rate = [0, 1_000, 10_000, 30_000, 100_000];
        let mut faults = RandomFaults::default();
        let kinds = self.chance.below(1 << 7);
        let fields = [
            &mut faults.drop_ppm,
            &mut faults.duplicate_ppm,
            &mut faults.delay_ppm,
            &mut faults.corrupt_ppm,
            &mut faults.mark_ce_ppm,
            &mut faults.reorder_ppm,
            &mut faults.truncate_ppm,
        ];
        for (kind, field) in fields.into_iter().enumerate() {
            if kinds >> kind & 1 == 1 {
                *field = *self.chance.pick(&rate);
            }
        }
        faults.most_delay_ns = self.duration(3_000_000);
        // Every third time they end.
        if self.chance.one_in(3) {
            faults = RandomFaults::default();
        }
        self.steps.push(Step::Faults(faults));
    }

    fn noise(&mut self) {
        let noise = Noise {
            end: self.end(),
            opcode: if self.chance.one_in(4) {
                self.chance.bits() as u8
            } else {
                self.chance.below(0x20) as u8
            },
            psn: self.chance.below(20) as i32 - 5,
            len: self.chance.below(300) as u16,
            guise: *self.chance.pick(&[
                Guise::Stranger,
                Guise::Forged,
                Guise::Partition,
                Guise::Copy,
                Guise::Copy,
                Guise::ForgedCopy,
            ]),
        };
        self.steps.push(Step::Noise(noise));
    }

    /// A message's length: around multiples of the MTU, or short, or any.
    fn length(&mut self, end: End) -> u32 {
        let mtu =
            self.connections.iter().find(|known| known.number == end.connection).map_or(1024, |it| it.mtu);
        let len = match self.chance.below(10) {
            0..4 => self.chance.below(100),
            4..8 => {
                let packets = self.chance.between(1, 6) * u64::from(mtu);
                (packets + self.chance.below(9)).saturating_sub(4)
            }
            8 => self.chance.below(u64::from(mtu) * 12),
            _ => self.chance.below(u64::from(LONGEST)),
        };
        len.min(u64::from(LONGEST)) as u32
    }

    fn host(&mut self) -> u8 {
        self.chance.below(u64::from(self.shape.hosts)) as u8
    }

    fn end(&mut self) -> End {
        let connection = self.chance.between(1, self.connections.len().max(1) as u64) as u32;
        End { connection, side: self.chance.below(2) as u8 }
    }

    /// Up to `most`, as often short as long.
    fn duration(&mut self, most: Nanos) -> Nanos {
        let bits = u64::BITS - most.leading_zeros();
        let shift = self.chance.below(u64::from(bits));
        self.chance.between(0, most >> shift)
    }
}

fn shape(chance: &mut Chance) -> Shape {
    let ecn = EcnMarking { kmin_bytes: 16 << 10, kmax_bytes: 128 << 10, pmax_ppm: 200_000 };
    // Room for what is on its way when the pause leaves: twice the longest link, and a frame each way.
    let pfc = Pfc { priorities: 1 << 3 | 1 << 5 | 1, headroom_bytes: 1 << 20, ..Pfc::default() };
    Shape {
        hosts: *chance.pick(&[2, 2, 2, 3, 4]),
        link: LinkConfig {
            rate_bps: *chance.pick(&[25, 100, 400]) * 1_000_000_000,
            delay_ns: *chance.pick(&[100, 1_000, 1_000, 10_000]),
            jitter_ns: *chance.pick(&[0, 0, 500, 5_000]),
            ..LinkConfig::default()
        },
        // Seldom so little that the switch drops.
        queue_bytes: *chance.pick(&[16 << 20, 16 << 20, 16 << 20, 64 << 10]),
        ecn: chance.one_in(4).then_some(ecn),
        pfc: chance.one_in(4).then_some(pfc),
        nic_queue_bytes: *chance.pick(&[4 << 10, 32 << 10, 32 << 10, 256 << 10]),
        dcqcn: chance.one_in(5),
        window_packets: *chance.pick(&[[512, 32], [512, 32], [64, 8], [8, 8]]),
    }
}

/// The part of the simulation that draws plans.
const PLAN_PART: u64 = 1 << 35;
/// Longest single wait.
const MAX_WAIT_NS: Nanos = 2_000_000;
/// Longest message.
const LONGEST: u32 = 48 << 10;
/// Steps of a plan.
const MAX_STEPS: usize = 2_000;
/// Exposed QPs of a plan.
const MAX_EXPOSED: u32 = 6;
/// Connections of a plan.
const MAX_CONNECTIONS: usize = 12;
