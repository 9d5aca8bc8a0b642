//! One device and an imagined peer: a script of packets, in both directions.

use crate::end::{End, Setup};
use crate::shot::{MTU, Shot, describe};
use ferroce_core::{Counter, Nanos, PathMtu, Remote, Srqn};
use ferroce_wire::{Packet, Psn, Qpn, Service};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// The device under test.
pub struct Solo {
    pub end: End,
    pub now: Nanos,
    outbox: VecDeque<Vec<u8>>,
}

/// The peer that is not there.
pub const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 99));
pub const PEER_QPN: Qpn = Qpn::new(0x99);

impl Solo {
    /// In RTS, with PSN 0 next in both directions and an MTU of 256.
    pub fn new() -> Solo {
        Solo::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Solo {
        let mut end = End::new(1, Setup { mtu: PathMtu::Mtu256, ..setup }, 1 << 20);
        end.enter_rtr(PEER, PEER_QPN);
        end.enter_rts();
        Solo { end, now: 0, outbox: VecDeque::new() }
    }

    pub fn rkey(&self) -> u32 {
        self.end.keys.rkey
    }

    /// The peer sends a packet, of the QP's service whatever service it is written in.
    pub fn rx(&mut self, shot: Shot) -> &mut Solo {
        let shot = self.in_service(shot);
        self.rx_as_it_is(shot)
    }

    /// The peer sends exactly this packet.
    pub fn rx_as_it_is(&mut self, shot: Shot) -> &mut Solo {
        let bytes = shot.bytes(PEER, self.end.address, self.end.qpn);
        self.rx_bytes(&bytes)
    }

    /// The peer sends these bytes.
    pub fn rx_bytes(&mut self, bytes: &[u8]) -> &mut Solo {
        self.end.handle_packet(self.now, PEER, bytes);
        self
    }

    /// The next packet of the device is this one, but for its payload.
    #[track_caller]
    pub fn tx(&mut self, shot: Shot) -> &mut Solo {
        self.poll();
        let sent = self.outbox.pop_front().expect("the device sends nothing");
        let expected = self.in_service(shot).bytes(self.end.address, PEER, PEER_QPN);
        assert_eq!(describe(&sent), describe(&expected));
        self
    }

    fn in_service(&self, shot: Shot) -> Shot {
        match self.end.setup.qp_type.service() {
            Service::Rc => shot,
            service => {
                let srqn = match self.end.remote {
                    Remote::Srq(srqn) => Some(srqn),
                    _ => self.end.srqn,
                };
                let shot = shot.in_service(service);
                shot.header(|header| header.xrceth(srqn.map_or(0, Srqn::value)))
            }
        }
    }

    /// The device sends a packet with this payload next, whatever else it is.
    #[track_caller]
    pub fn tx_payload(&mut self) -> Vec<u8> {
        self.poll();
        let sent = self.outbox.pop_front().expect("the device sends nothing");
        Packet::parse(&sent).expect("a packet").payload().to_vec()
    }

    /// The device sends nothing (more).
    #[track_caller]
    pub fn idle(&mut self) -> &mut Solo {
        self.poll();
        let left: Vec<_> = self.outbox.iter().map(|packet| describe(packet)).collect();
        assert_eq!(left, [] as [String; 0]);
        self
    }

    /// Throws away what it sends.
    pub fn skip(&mut self) -> usize {
        self.poll();
        std::mem::take(&mut self.outbox).len()
    }

    fn poll(&mut self) {
        self.outbox.extend(self.end.transmit(self.now));
    }

    /// Time passes to the moment `at`.
    pub fn at(&mut self, at: Nanos) -> &mut Solo {
        assert!(at >= self.now);
        // At most two deadlines of interest lie between two steps of a script.
        while let Some(next) = self.end.device.poll_timeout().filter(|next| *next <= at) {
            self.now = self.now.max(next);
            self.end.device.handle_timeout(self.now);
            self.poll();
        }
        self.now = at;
        self.end.collect();
        self
    }

    pub fn counter(&self, counter: Counter) -> u64 {
        self.end.device.counters().get(counter)
    }

    /// Posts a SEND of `len` bytes from the start of the arena.
    pub fn post_send(&mut self, wr_id: u64, len: u32) -> &mut Solo {
        self.post(wr_id, ferroce_core::SendOp::Send, len)
    }

    /// Posts an operation with `len` bytes of local memory at offset 0x1000.
    pub fn post(&mut self, wr_id: u64, op: ferroce_core::SendOp, len: u32) -> &mut Solo {
        let sge = self.end.sge(0x1000, len);
        self.end.post_send(self.now, crate::end::wr(wr_id, op, &[sge]));
        self
    }

    /// Posts a receive of `len` bytes at offset 0x8000.
    pub fn post_recv(&mut self, wr_id: u64, len: u32) -> &mut Solo {
        let sge = self.end.sge(0x8000, len);
        self.end.post_recv(self.now, wr_id, &[sge]);
        self
    }
}

/// Bytes of `count` full packets.
pub fn packets(count: u32) -> u32 {
    count * MTU as u32
}

/// A PSN as scripts write it, around the wrap.
pub fn psn(value: i64) -> u32 {
    Psn::new(value as u32).value()
}
