//! Holding packets back while the receiver's socket buffer, on this host, is full.
//!
//! A card's link layer pauses the sender (PFC) before a receiver's buffer overflows; the kernel just drops. On
//! one host the processes can do better than lose and retransmit: senders announce on the keeper's board what
//! they are about to send to a slot, the slot's owner writes down what it took off its socket, and a sender
//! waits while the difference would not fit. Nothing of it is on the wire, and a peer on another host knows
//! nothing of it: what it sends counts for nothing here, and what was announced and lost is forgotten when the
//! owner finds its socket empty.

use ferroce_core::{Nanos, PacketMeta, Path, TransmitSink};
use ferroce_keeper::{Board, SlotRecord};
use std::collections::BTreeMap;

/// What the kernel charges a socket buffer for a packet that shares a buffer with the one before it, beyond its bytes,
/// at most (measured on Linux 6.18: 20 bytes, and 59 for packets of 4 KiB).
const CONTINUED_OVERHEAD: u64 = 64;
/// What it charges for the administration of a buffer.
const BUFFER_OVERHEAD: u64 = 256;
/// Bytes of a buffer that no payload can use: headers in front of it, `struct skb_shared_info` behind it.
const BUFFER_RESERVE: u64 = 448;
/// The smallest buffer.
const BUFFER_MIN: u64 = 576;
/// The least that a packet is charged for: so many of them, at most, find room in a socket buffer.
pub(super) const LEAST_CHARGE: u64 = CONTINUED_OVERHEAD;
/// How long packets are held back without the receiver taking anything, in nanoseconds. A receiver that does
/// nothing for so long has stopped, or the board is wrong; loss and retransmission take over. On a machine with many
/// more processes than processors one waits for its turn for tenths of a second, and UC and UD have no retransmission.
const HOLD_AT_MOST_NS: Nanos = 1_000_000_000;

/// A port whose packets wait for room at their receiver.
pub(super) struct HoldingSink<'a, S> {
    pub(super) sink: &'a mut S,
    pub(super) hold: &'a mut Hold,
    pub(super) board: &'a Board,
    pub(super) now: Nanos,
}

/// What the holding sinks of a process remember from batch to batch.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// The packet reserved and not committed: slot and charge.
    reserved: Option<(u8, u64)>,
    /// The slots that are full: what their owner had taken then, and since when that has not changed. At most
    /// 255.
    full: BTreeMap<u8, (u64, Nanos)>,
}

impl<S: TransmitSink> TransmitSink for HoldingSink<'_, S> {
    fn reserve(&mut self, path: &Path, len: usize) -> Option<&mut [u8]> {
        self.hold.reserved = None;
        // A peer on this host that is no client of the keeper may have any QPN, also one of no slot.
        let record = path.receiver.and_then(|slot| Some((slot, self.board.slot(usize::from(slot))?)));
        if let Some((slot, record)) = record {
            self.sink.reserve(path, len)?;
            let charge = charge(len, self.sink.continues());
            if !self.hold.has_room(slot, record, charge, self.now) {
                return None;
            }
            self.hold.reserved = Some((slot, charge));
        }
        self.sink.reserve(path, len)
    }

    fn continues(&self) -> bool {
        self.sink.continues()
    }

    fn commit(&mut self) {
        if let Some((slot, charge)) = self.hold.reserved.take()
            && let Some(record) = self.board.slot(usize::from(slot))
        {
            record.add_enqueued(charge);
        }
        self.sink.commit();
    }
}

impl Hold {
    fn has_room(&mut self, slot: u8, record: SlotRecord<'_>, charge: u64, now: Nanos) -> bool {
        let capacity = record.capacity();
        let backlog = record.backlog();
        // A packet larger than the buffer has to go some time: it goes alone.
        if capacity == 0 || backlog == 0 || backlog + charge <= capacity {
            if !self.full.is_empty() {
                self.full.remove(&slot);
            }
            return true;
        }
        let consumed = record.consumed();
        match self.full.get(&slot) {
            Some((then, since)) if *then == consumed => now.saturating_sub(*since) > HOLD_AT_MOST_NS,
            _ => {
                self.full.insert(slot, (consumed, now));
                false
            }
        }
    }
}

/// What the kernel charges a socket buffer for a packet of `len` bytes. A buffer for one packet alone has a power of two of
/// bytes, which is nearly twice what a packet of 4 KiB needs; the packets of a run are put into pages, without gaps.
fn charge(len: usize, continues: bool) -> u64 {
    let len = len as u64;
    if continues {
        len + CONTINUED_OVERHEAD
    } else {
        BUFFER_OVERHEAD + (len + BUFFER_RESERVE).next_power_of_two().max(BUFFER_MIN)
    }
}

/// The owner's side: writes down what it took off its socket.
#[derive(Debug, Default)]
pub(super) struct Intake {
    enqueued_before: u64,
    taken: u64,
}

impl Intake {
    /// To be called before receiving.
    pub(super) fn begin(record: SlotRecord<'_>) -> Intake {
        Intake { enqueued_before: record.enqueued(), taken: 0 }
    }

    /// A packet was received.
    pub(super) fn add(&mut self, meta: &PacketMeta, len: usize) {
        // Between two addresses of one host, these are nearly always the same address. Announced packets that
        // are missed here are found when the socket is empty.
        if meta.src == meta.dst {
            self.taken += charge(len, meta.continues);
        }
    }

    /// To be called after receiving `received` packets. With none, the socket was empty, and all that was
    /// announced before has arrived or is lost.
    pub(super) fn end(self, record: SlotRecord<'_>, received: usize) {
        if received == 0 {
            if record.consumed() != self.enqueued_before {
                record.set_consumed(self.enqueued_before);
            }
        } else if self.taken > 0 {
            record.set_consumed(record.consumed().wrapping_add(self.taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_core::Ipv4Id;
    use std::net::{IpAddr, Ipv4Addr};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    /// Takes every packet and counts.
    #[derive(Default)]
    struct Counting {
        buffer: Vec<u8>,
        committed: usize,
    }

    impl TransmitSink for Counting {
        fn reserve(&mut self, _path: &Path, len: usize) -> Option<&mut [u8]> {
            self.buffer.resize(len, 0);
            Some(&mut self.buffer)
        }

        fn commit(&mut self) {
            self.committed += 1;
        }
    }

    fn path(receiver: Option<u8>) -> Path {
        Path {
            src: HERE,
            dst: HERE,
            interface: 0,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            source_port: 0xf000,
            receiver,
        }
    }

    fn send(sink: &mut impl TransmitSink, path: &Path, len: usize) -> bool {
        let sent = sink.reserve(path, len).is_some();
        if sent {
            sink.commit();
        }
        sent
    }

    fn meta(src: IpAddr) -> PacketMeta {
        PacketMeta {
            src,
            dst: HERE,
            source_port: 1,
            traffic_class: 0,
            icrc_checked: false,
            ip_id: Ipv4Id::Guessed(0),
            continues: false,
        }
    }

    #[test]
    fn packets_wait_for_room_and_go_on_when_the_owner_has_taken_some() {
        let board = Board::create().expect("a board");
        let record = board.slot(3).expect("slot 3");
        record.set_capacity(10_000);
        let (mut counting, mut hold) = (Counting::default(), Hold::default());
        let mut sink = HoldingSink { sink: &mut counting, hold: &mut hold, board: &board, now: 0 };
        let path = path(Some(3));
        let sent = (0..100).take_while(|_| send(&mut sink, &path, 1000)).count();
        // A packet of 1000 bytes alone takes 2048 + 256.
        assert_eq!(sent, 4);
        let mut intake = Intake::begin(record);
        intake.add(&meta(HERE), 1000);
        intake.end(record, 1);
        assert!(send(&mut sink, &path, 1000));
        assert!(!send(&mut sink, &path, 1000));
        assert_eq!(counting.committed, 5);
    }

    #[test]
    fn packets_alone_are_charged_for_as_the_kernel_does() {
        // Read from `ss -m` on Linux 6.18.
        let measured =
            [(24, 832), (500, 1280), (1000, 2304), (2000, 4352), (3000, 4352), (4120, 8448), (8200, 16640)];
        for (len, charged) in measured {
            assert!((charged..=charged + 448).contains(&charge(len, false)), "{len}");
        }
        assert!((1060..=1104).contains(&charge(1040, true)));
        assert!((4171..=4176).contains(&charge(4112, true)));
    }

    #[test]
    fn an_empty_socket_settles_what_was_lost() {
        let board = Board::create().expect("a board");
        let record = board.slot(3).expect("slot 3");
        record.set_capacity(2_000);
        record.add_enqueued(50_000);
        Intake::begin(record).end(record, 0);
        assert_eq!(record.backlog(), 0);
    }

    #[test]
    fn strangers_packets_do_not_count() {
        let board = Board::create().expect("a board");
        let record = board.slot(3).expect("slot 3");
        record.add_enqueued(5_000);
        let mut intake = Intake::begin(record);
        intake.add(&meta(THERE), 1000);
        intake.end(record, 1);
        assert_eq!(record.backlog(), 5_000);
    }

    #[test]
    fn a_receiver_that_stopped_holds_nobody_for_ever() {
        let board = Board::create().expect("a board");
        let record = board.slot(3).expect("slot 3");
        record.set_capacity(1_000);
        record.add_enqueued(5_000);
        let (mut counting, mut hold) = (Counting::default(), Hold::default());
        let path = path(Some(3));
        for (now, goes) in [(1, false), (HOLD_AT_MOST_NS, false), (HOLD_AT_MOST_NS + 2, true)] {
            let mut sink = HoldingSink { sink: &mut counting, hold: &mut hold, board: &board, now };
            assert_eq!(send(&mut sink, &path, 1000), goes, "at {now}");
        }
    }

    #[test]
    fn a_peer_whose_qpn_is_in_no_slot_is_sent_to() {
        let board = Board::create().expect("a board");
        let (mut counting, mut hold) = (Counting::default(), Hold::default());
        let mut sink = HoldingSink { sink: &mut counting, hold: &mut hold, board: &board, now: 0 };
        assert!(send(&mut sink, &path(Some(u8::MAX)), 1000));
    }

    #[test]
    fn paths_to_other_hosts_are_never_held() {
        let board = Board::create().expect("a board");
        let (mut counting, mut hold) = (Counting::default(), Hold::default());
        let mut sink = HoldingSink { sink: &mut counting, hold: &mut hold, board: &board, now: 0 };
        assert!((0..10_000).all(|_| send(&mut sink, &path(None), 4000)));
    }
}
