//! Work requests in few words.

use super::Buffer;
use crate::verbs::{Ah, Data, Datagram, SendWr, To};
use ferroce_core::{RecvWr, SendFlags, SendOp, Sge, Srqn};
use ferroce_wire::Qpn;

/// A send work request under way: signaled, and with nothing to send until it is told.
#[derive(Clone, Debug)]
pub struct Wr(SendWr);

impl Wr {
    /// A signaled work request.
    pub fn new(wr_id: u64, op: SendOp) -> Wr {
        let data = Data::Sges(Default::default());
        Wr(SendWr { wr_id, op, flags: SendFlags::SIGNALED, data, to: To::Peer })
    }

    /// SEND.
    pub fn send(wr_id: u64) -> Wr {
        Wr::new(wr_id, SendOp::Send)
    }

    /// RDMA WRITE to `buffer`, from its byte `offset` on.
    pub fn write(wr_id: u64, buffer: &Buffer, offset: u64) -> Wr {
        Wr::new(wr_id, SendOp::Write { va: buffer.addr + offset, rkey: buffer.mr.rkey })
    }

    /// RDMA READ from `buffer`, from its byte `offset` on.
    pub fn read(wr_id: u64, buffer: &Buffer, offset: u64) -> Wr {
        Wr::new(wr_id, SendOp::Read { va: buffer.addr + offset, rkey: buffer.mr.rkey })
    }

    /// Fetch and add on the word at byte `offset` of `buffer`.
    pub fn fetch_add(wr_id: u64, buffer: &Buffer, offset: u64, add: u64) -> Wr {
        Wr::new(wr_id, SendOp::FetchAdd { va: buffer.addr + offset, rkey: buffer.mr.rkey, add })
    }

    /// Compare and swap on the word at byte `offset` of `buffer`.
    pub fn compare_swap(wr_id: u64, buffer: &Buffer, offset: u64, compare: u64, swap: u64) -> Wr {
        let (va, rkey) = (buffer.addr + offset, buffer.mr.rkey);
        Wr::new(wr_id, SendOp::CompareSwap { va, rkey, compare, swap })
    }

    /// With one more element in its list.
    #[must_use]
    pub fn sge(mut self, sge: Sge) -> Wr {
        match &mut self.0.data {
            Data::Sges(sges) => sges.push(sge),
            Data::Inline(_) => self.0.data = Data::Sges([sge].into_iter().collect()),
        }
        self
    }

    /// With these bytes, copied now.
    #[must_use]
    pub fn inline(mut self, bytes: &[u8]) -> Wr {
        self.0.data = Data::Inline(bytes.to_vec());
        self
    }

    /// With more flags.
    #[must_use]
    pub fn flags(mut self, flags: SendFlags) -> Wr {
        self.0.flags |= flags;
        self
    }

    /// Without a completion when it succeeds.
    #[must_use]
    pub fn unsignaled(mut self) -> Wr {
        self.0.flags -= SendFlags::SIGNALED;
        self
    }

    /// As a datagram.
    #[must_use]
    pub fn to(mut self, ah: Ah, qpn: Qpn, qkey: u32) -> Wr {
        self.0.to = To::Datagram(Datagram { ah, qpn, qkey });
        self
    }

    /// For an SRQ behind the peer.
    #[must_use]
    pub fn to_srq(mut self, srqn: Srqn) -> Wr {
        self.0.to = To::Srq(srqn);
        self
    }
}

impl From<Wr> for SendWr {
    fn from(wr: Wr) -> SendWr {
        wr.0
    }
}

/// A receive work request.
pub fn recv(wr_id: u64, sges: &[Sge]) -> RecvWr {
    RecvWr { wr_id, sges: sges.into() }
}
