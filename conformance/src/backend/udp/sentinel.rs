//! Knowing that packets have been handled, without waiting for some time: a zero-length WRITE with AckReq that is
//! sent behind them, between QPs that no case knows. Sockets keep the order of packets, the engine handles them in it,
//! and the ACK of the last comes back when all have been.

use super::UdpFabric;
use super::end::UdpEnd;
use super::peer::UdpPeer;
use crate::fabric::{Envelope, Fabric, IpVersion, RawPacket, RawSource};
use ferroce::core::{
    AccessFlags, PathMtu, Payload, QpAttr, QpAttrMask, QpCaps, QpState, QpType, Remote, SendFlags, SendOp,
    SendWr,
};
use ferroce::{AhAttr, Cq, CqSpec, Error, Gid, Pd, Qp, QpSpec};
use ferroce_wire::{Opcode, Packet, PacketHeader, Psn, Qpn};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr};

/// The QPs of a fabric that only say that something is over.
#[derive(Debug)]
pub(super) struct Sentinel {
    /// Two that are connected to each other.
    pair: [Qp; 2],
    /// One that is connected to the raw peer, and the PSN it expects next.
    to_peer: Option<(Qp, Psn)>,
    cq: Cq,
    /// Dropped last, as everything above is made from it.
    _pd: Pd,
}

/// The QPN of the raw peer's side.
const PEER_QPN: Qpn = Qpn::new(0x00_fffe);

/// Whether a packet that came to the raw peer belongs to a sentinel.
pub(super) fn is_for_peer(payload: &[u8]) -> bool {
    Packet::parse(payload).is_ok_and(|packet| packet.bth().dest_qpn() == PEER_QPN)
}

/// Sends a message through the engine and back, and one more from the raw peer if there is one; returns when both are
/// answered.
pub(super) fn exchange(fabric: &mut UdpFabric) {
    if fabric.sentinel.is_none() {
        // Whatever keeps more QPs from being made will show in the case itself.
        fabric.sentinel = Sentinel::new(&fabric.ends[0], fabric.peer.is_some()).ok();
    }
    let Some(sentinel) = &mut fabric.sentinel else { return };
    let posted = sentinel.post();
    let packet = sentinel.next_packet();
    if posted {
        fabric.run_until(|fabric| fabric.sentinel.as_ref().is_none_or(Sentinel::is_complete));
    }
    if let Some(packet) = packet
        && fabric.raw_send(&packet).is_ok()
    {
        let start = fabric.start;
        fabric.run_until(|fabric| fabric.peer.as_mut().is_none_or(|peer| peer.take_sentinel(start)));
    }
}

impl Sentinel {
    fn new(end: &UdpEnd, with_peer: bool) -> Result<Sentinel, Error> {
        let pd = end.context.alloc_pd()?;
        let cq = end.context.create_cq(&CqSpec { cqe: 16, cookie: u64::MAX, ..CqSpec::default() })?;
        let create = || {
            let caps = QpCaps { max_send_wr: 4, ..QpCaps::default() };
            let qp_type = QpType::Rc;
            pd.create_qp(&QpSpec {
                qp_type,
                send_cq: &cq,
                recv_cq: &cq,
                caps,
                sq_sig_all: true,
                cookie: u64::MAX,
                srq: None,
                block_self_mcast: false,
            })
        };
        let here = Ipv4Addr::LOCALHOST.into();
        let pair = [create()?, create()?];
        connect(end, &pair[0], here, pair[1].qpn())?;
        connect(end, &pair[1], here, pair[0].qpn())?;
        let to_peer = match with_peer {
            true => {
                let qp = create()?;
                connect(end, &qp, UdpPeer::ADDRESS.into(), PEER_QPN)?;
                Some((qp, Psn::default()))
            }
            false => None,
        };
        Ok(Sentinel { pair, to_peer, cq, _pd: pd })
    }

    /// Posts the message within the engine.
    fn post(&self) -> bool {
        let wr = SendWr {
            wr_id: 0,
            op: SendOp::Write { va: 0, rkey: 0 },
            flags: SendFlags::SIGNALED,
            payload: Payload::Sges(SmallVec::new()),
            remote: Remote::Peer,
        };
        self.pair[0].post_send([wr]).is_ok()
    }

    fn is_complete(&self) -> bool {
        self.cq.poll(1).is_ok_and(|wcs| !wcs.is_empty())
    }

    /// What the raw peer sends.
    fn next_packet(&mut self) -> Option<RawPacket> {
        let (qp, psn) = self.to_peer.as_mut()?;
        let header = PacketHeader::new(Opcode::RC_WRITE_ONLY, qp.qpn(), *psn).ack_req(true);
        *psn = psn.plus(1);
        let mut payload = vec![0; header.packet_len(0)];
        header.write(&mut payload, 0);
        Some(RawPacket {
            from: RawSource::Peer,
            version: IpVersion::V4,
            source_port: None,
            traffic_class: 0,
            payload,
            seal: true,
            envelope: Envelope::True,
            to_group: false,
        })
    }
}

/// Takes a QP from RESET to RTS.
fn connect(end: &UdpEnd, qp: &Qp, address: IpAddr, peer: Qpn) -> Result<(), Error> {
    let here = Gid::from_ip(Ipv4Addr::LOCALHOST.into());
    let gids = end.context.device().gids();
    let sgid_index = gids.iter().find(|(_, gid)| *gid == here).map_or(0, |(index, _)| *index);
    let ah = AhAttr {
        is_global: true,
        dgid: Gid::from_ip(address),
        sgid_index,
        flow_label: 0,
        hop_limit: 64,
        traffic_class: 0,
        sl: 0,
        port_num: 1,
    };
    let attr = QpAttr {
        access: AccessFlags::REMOTE_WRITE,
        path_mtu: PathMtu::Mtu256,
        dest_qpn: peer,
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        min_rnr_timer: 1,
        // Nothing is lost here, and what is late is not lost.
        timeout: 0,
        retry_cnt: 7,
        rnr_retry: 7,
        ..QpAttr::default()
    };
    for (qp_state, mask) in TO_RTS {
        qp.modify(&QpAttr { qp_state, ..attr }, Some(&ah), mask | QpAttrMask::STATE)?;
    }
    Ok(())
}

/// The steps from RESET to RTS of an RC QP, and what each needs.
const TO_RTS: [(QpState, QpAttrMask); 3] = [
    (QpState::Init, QpAttrMask::PKEY_INDEX.union(QpAttrMask::PORT).union(QpAttrMask::ACCESS_FLAGS)),
    (
        QpState::Rtr,
        QpAttrMask::AV
            .union(QpAttrMask::PATH_MTU)
            .union(QpAttrMask::DEST_QPN)
            .union(QpAttrMask::RQ_PSN)
            .union(QpAttrMask::MAX_DEST_RD_ATOMIC)
            .union(QpAttrMask::MIN_RNR_TIMER),
    ),
    (
        QpState::Rts,
        QpAttrMask::SQ_PSN
            .union(QpAttrMask::TIMEOUT)
            .union(QpAttrMask::RETRY_CNT)
            .union(QpAttrMask::RNR_RETRY)
            .union(QpAttrMask::MAX_QP_RD_ATOMIC),
    ),
];
