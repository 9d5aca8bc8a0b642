//! Many senders, one receiver: what the switch's queue, the senders' rates and their fairness look like.

use crate::card::{self, RATE_BPS};
use ferroce_core::{Counter, Dcqcn, Nanos, Profile, Reacts, SendOp, WcStatus};
use ferroce_emulator::{
    Buffer, Connection, EcnMarking, Fabric, FabricConfig, LinkConfig, NicConfig, Pfc, QpRef, SwitchConfig,
};

/// What the switch and the cards do against a full queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remedy {
    /// Its name in tables and plots.
    pub name: &'static str,
    dcqcn: bool,
    pfc: bool,
    selective: bool,
    /// Bytes between two rises of a rate, if not ConnectX's default.
    byte_reset: Option<u32>,
}

impl Remedy {
    const NONE: Remedy =
        Remedy { name: "nothing", dcqcn: false, pfc: false, selective: false, byte_reset: None };

    /// Those that are drawn, then those that are in the table only.
    pub const ALL: [Remedy; 8] = [
        Remedy::NONE,
        Remedy { name: "PFC", pfc: true, ..Remedy::NONE },
        Remedy { name: "DCQCN", dcqcn: true, ..Remedy::NONE },
        Remedy { name: "DCQCN and PFC", dcqcn: true, pfc: true, ..Remedy::NONE },
        Remedy { name: "selective repeat", selective: true, ..Remedy::NONE },
        Remedy { name: "DCQCN and selective repeat", dcqcn: true, selective: true, ..Remedy::NONE },
        Remedy { name: "DCQCN with 2 MiB", dcqcn: true, byte_reset: BYTE_RESET, ..Remedy::NONE },
        Remedy {
            name: "DCQCN with 2 MiB and selective repeat",
            dcqcn: true,
            selective: true,
            byte_reset: BYTE_RESET,
            ..Remedy::NONE
        },
    ];
    /// How many are drawn.
    pub const DRAWN: usize = 4;
}

/// The default taken as a number of 64 bytes.
const BYTE_RESET: Option<u32> = Some(32_767 * 64);

/// Senders.
pub const SENDERS: usize = 8;
/// How long they send.
pub const DURATION_NS: Nanos = 10_000_000;
/// How often queue and rates are looked at.
pub const SAMPLE_NS: Nanos = 20_000;
/// Each link one way; four of them are a round trip of 10 µs.
const LINK_DELAY_NS: Nanos = 2_500;
/// Without it senders in step would always find the same one's packet at the only place that is free.
const JITTER_NS: Nanos = 500;
/// What each queue of the switch holds.
pub const QUEUE_BYTES: u64 = 1 << 20;
/// When the switch marks.
pub const ECN: EcnMarking = EcnMarking { kmin_bytes: 100 << 10, kmax_bytes: 400 << 10, pmax_ppm: 200_000 };
/// When it pauses a sender: by bytes that came from it.
pub const PFC: Pfc =
    Pfc { priorities: 1 << 3, xoff_bytes: 96 << 10, xon_bytes: 64 << 10, headroom_bytes: 256 << 10 };

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was done against the queue.
    pub remedy: Remedy,
    /// Bytes in the queue to the receiver, at each sample.
    pub queue: Vec<u64>,
    /// Bytes that the receiver has of each sender, at each sample.
    pub received: Vec<[u64; SENDERS]>,
    /// Frames that the switch dropped.
    pub dropped: u64,
    /// Request packets sent again.
    pub repeated: u64,
    /// Times that the switch paused a sender.
    pub pauses: u64,
    /// CNPs sent.
    pub cnps: u64,
}

impl Run {
    /// Runs it.
    pub fn new(remedy: Remedy, seed: u64) -> Run {
        let mut fabric = fabric(remedy, seed);
        let flows = std::array::from_fn(|index| Flow::start(&mut fabric, index, remedy.selective));
        let (queue, received) = sample(&mut fabric, flows);
        let switch = fabric.switch().expect("it was asked for");
        let senders = 0..SENDERS;
        let repeated = |index| fabric.counter(fabric.endpoint(index), Counter::RetransmittedPackets);
        Run {
            remedy,
            queue,
            received,
            dropped: fabric.network.egress_stats(switch, SENDERS).dropped,
            repeated: senders.clone().map(repeated).sum(),
            pauses: senders.map(|port| fabric.network.egress_stats(switch, port).pauses_sent).sum(),
            cnps: fabric.counter(fabric.endpoint(SENDERS), Counter::NpCnpSent),
        }
    }

    /// Mean length of the queue, in bytes.
    pub fn mean_queue(&self) -> u64 {
        self.queue.iter().sum::<u64>() / self.queue.len() as u64
    }

    /// Bits per second of each sender between two samples.
    pub fn rates(&self, from: usize, to: usize) -> [f64; SENDERS] {
        let time_ns = (to - from) as f64 * SAMPLE_NS as f64;
        std::array::from_fn(|sender| {
            (self.received[to][sender] - self.received[from][sender]) as f64 * 8e9 / time_ns
        })
    }

    /// Bits per second that all senders together got through.
    pub fn goodput_bps(&self) -> f64 {
        self.rates(0, self.received.len() - 1).iter().sum()
    }
}

/// Jain's index of some rates: 1 if all are the same, one in as many as there are if one has everything.
pub fn fairness(rates: &[f64]) -> f64 {
    let (sum, squares) =
        rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    if squares == 0.0 { 1.0 } else { sum * sum / (rates.len() as f64 * squares) }
}

fn fabric(remedy: Remedy, seed: u64) -> Fabric {
    let reacts = if remedy.dcqcn { Reacts::Always } else { Reacts::Never };
    let mut dcqcn = Dcqcn { reacts, line_rate_bps: RATE_BPS, ..Dcqcn::default() };
    dcqcn.rpg_byte_reset = remedy.byte_reset.unwrap_or(dcqcn.rpg_byte_reset);
    let profile = Profile { dcqcn, selective_repeat: remedy.selective, ..card::profile() };
    let pfc = remedy.pfc.then_some(PFC);
    Fabric::new(&FabricConfig {
        seed,
        endpoints: SENDERS + 1,
        nic: NicConfig { profile, ..NicConfig::default() },
        link: LinkConfig {
            rate_bps: RATE_BPS,
            delay_ns: LINK_DELAY_NS,
            jitter_ns: JITTER_NS,
            ..LinkConfig::default()
        },
        switch: Some(SwitchConfig {
            queue_bytes: QUEUE_BYTES,
            ecn: Some(ECN),
            pfc,
            ..SwitchConfig::default()
        }),
        ..FabricConfig::default()
    })
}

/// The queue to the receiver and what it has of each sender, sample by sample.
fn sample(fabric: &mut Fabric, mut flows: [Flow; SENDERS]) -> (Vec<u64>, Vec<[u64; SENDERS]>) {
    let switch = fabric.switch().expect("it was asked for");
    let (mut queue, mut received) = (vec![0], vec![[0; SENDERS]]);
    for at in (SAMPLE_NS..=DURATION_NS).step_by(SAMPLE_NS as usize) {
        fabric.network.run_until(at);
        queue.push(fabric.network.queue_bytes(switch, SENDERS, PRIORITY));
        received.push(flows.each_mut().map(|flow| flow.received(fabric)));
    }
    (queue, received)
}

/// One sender, which writes without end.
struct Flow {
    qp: QpRef,
    source: Buffer,
    target: Buffer,
}

impl Flow {
    fn start(fabric: &mut Fabric, index: usize, selective_repeat: bool) -> Flow {
        let hosts = [fabric.endpoint(index), fabric.endpoint(SENDERS)];
        let connection = Connection { timeout: card::TIMEOUT, selective_repeat, ..Connection::default() };
        let [qp, _] = fabric.connected_pair(hosts, &connection);
        let [source, target] = hosts.map(|host| fabric.buffer(host, WRITE_BYTES as usize));
        let flow = Flow { qp, source, target };
        // One more waits while one is being written.
        flow.post(fabric);
        flow.post(fabric);
        flow
    }

    fn post(&self, fabric: &mut Fabric) {
        let write = SendOp::Write { va: self.target.addr, rkey: self.target.keys.rkey };
        fabric.post_send(self.qp, 0, write, &[self.source.sge(0, WRITE_BYTES)]);
    }

    /// Bytes acknowledged so far; posts what keeps it going.
    fn received(&mut self, fabric: &mut Fabric) -> u64 {
        for wc in fabric.take_sent(self.qp) {
            assert_eq!(wc.status, WcStatus::Success);
            self.post(fabric);
        }
        let nic = fabric.network.nic(self.qp.host).expect("a sender has a card");
        let snapshot = nic.device().snapshot(self.qp.qpn).and_then(|qp| qp.requester);
        // PSNs begin at 0 and every packet of these messages is full, so a PSN is so many bytes.
        snapshot.map_or(0, |requester| u64::from(requester.unacked.value()) * PACKET_BYTES)
    }
}

/// Longer than what is under way, or a sender would wait for the next sample to go on.
const WRITE_BYTES: u32 = 4 << 20;
const PACKET_BYTES: u64 = 4096;
/// All of them have DSCP 26.
const PRIORITY: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_all_and_a_share_for_one() {
        assert_eq!(fairness(&[3.0; 8]), 1.0);
        assert_eq!(fairness(&[5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(fairness(&[0.0; 4]), 1.0);
    }
}
