//! Address vectors and address handles: where a GID leads.

use crate::context::ContextShared;
use crate::device::Device;
use crate::error::Error;
use crate::gid::Gid;
use crate::pd::PdUser;
use ferroce_core::{AddressVector, Path, Remote};
use ferroce_port::{interfaces, source_port};
use ferroce_wire::{Ipv4Header, Ipv6Header, Qpn};
use std::net::IpAddr;
use std::sync::Arc;
use zerocopy::FromBytes;

/// An address vector as the application gives it (`struct ibv_ah_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AhAttr {
    /// Whether the fields of the GRH are given; RoCE can't do without.
    pub is_global: bool,
    /// The peer's GID, or (in address handles) a multicast group's.
    pub dgid: Gid,
    /// Index of our own GID.
    pub sgid_index: u32,
    /// IPv6 flow label, 20 bits; 0 lets the source port follow from the QPNs.
    pub flow_label: u32,
    /// TTL or hop limit; 0 means 64.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Port, which is 1.
    pub port_num: u8,
}

impl AhAttr {
    /// The way back to the sender of a datagram, from the 40 bytes in front of its payload
    /// (`ibv_init_ah_from_wc(3)`): a whole IPv6 header, or an IPv4 header in the last 20 bytes.
    ///
    /// The answer to a packet that came to a group leaves from the first address of the same IP version.
    ///
    /// # Errors
    /// The bytes are no such header; the device does not have the address that the packet was sent to.
    pub fn of_sender(device: &Device, grh: &[u8; GRH_LEN]) -> Result<AhAttr, Error> {
        let header = IpHeader::of(grh).ok_or(Error::NoIpHeader)?;
        let gids = device.gids();
        let own = gids.iter().find(|(_, gid)| match header.dst.is_multicast() {
            true => gid.ip().is_ipv4() == header.dst.is_ipv4(),
            false => gid.ip() == header.dst,
        });
        let (sgid_index, _) = own.ok_or(Error::NotOurs(Gid::from_ip(header.dst)))?;
        Ok(AhAttr {
            is_global: true,
            dgid: Gid::from_ip(header.src),
            sgid_index: *sgid_index,
            flow_label: header.flow_label,
            hop_limit: header.hop_limit,
            traffic_class: header.traffic_class,
            sl: 0,
            port_num: PORT_NUM,
        })
    }
}

/// What an IP header says about the way back.
struct IpHeader {
    src: IpAddr,
    dst: IpAddr,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
}

impl IpHeader {
    /// An IPv4 header has a checksum to be known by; what is left is IPv6 if its version says so.
    fn of(grh: &[u8; GRH_LEN]) -> Option<IpHeader> {
        let (_, last) = grh.split_last_chunk::<{ Ipv4Header::LEN }>()?;
        let v4 = Ipv4Header::ref_from_bytes(last).ok()?;
        if v4.version() == 4 && v4.header_len() == Ipv4Header::LEN && v4.is_checksum_right() {
            return Some(IpHeader {
                src: v4.source().into(),
                dst: v4.destination().into(),
                flow_label: 0,
                hop_limit: v4.ttl(),
                traffic_class: v4.tos(),
            });
        }
        let v6 = Ipv6Header::ref_from_bytes(grh).ok()?;
        (v6.version() == 6).then(|| IpHeader {
            src: v6.source().into(),
            dst: v6.destination().into(),
            flow_label: v6.flow_label(),
            hop_limit: v6.hop_limit(),
            traffic_class: v6.traffic_class(),
        })
    }
}

/// An address handle (`ibv_create_ah(3)`): where datagrams go. Requests that were posted with it go on when it is
/// dropped.
#[derive(Debug)]
pub struct Ah {
    av: Arc<AddressVector>,
    attr: AhAttr,
    is_of_this_host: bool,
    pd: PdUser,
}

impl Ah {
    pub(crate) fn new(pd: PdUser, attr: &AhAttr) -> Result<Ah, Error> {
        let device = &pd.pd.context.device;
        let path = path(device, attr)?;
        let is_of_this_host = !path.dst.is_multicast() && is_of_this_host(path.src, path.dst);
        Ok(Ah { av: Arc::new(address_vector(attr, path)), attr: *attr, is_of_this_host, pd })
    }

    /// What it was made with.
    pub fn attr(&self) -> &AhAttr {
        &self.attr
    }

    /// The UD QP `qpn` there, as a request of the QP `from` names it; [`Qpn::MULTICAST`] with the address of a group.
    /// A `qkey` with the top bit set stands for the sending QP's own.
    pub fn remote(&self, from: Qpn, qpn: Qpn, qkey: u32) -> Remote {
        Remote::Datagram {
            ah: Arc::clone(&self.av),
            pd: self.pd.pd.id,
            qpn,
            qkey,
            source_port: source_port(self.attr.flow_label, from.value(), qpn.value()),
            receiver: self.is_of_this_host.then_some(slot_of(qpn)),
        }
    }
}

/// The address vector of a connection from `qpn` to `peer`.
pub(crate) fn resolve(
    context: &ContextShared,
    ah: &AhAttr,
    qpn: Qpn,
    peer: Qpn,
) -> Result<AddressVector, Error> {
    let path = path(&context.device, ah)?;
    if path.dst.is_multicast() {
        return Err(Error::GidNotUnicast(ah.dgid));
    }
    let path = Path {
        source_port: source_port(ah.flow_label, qpn.value(), peer.value()),
        receiver: is_of_this_host(path.src, path.dst).then_some(slot_of(peer)),
        ..path
    };
    Ok(address_vector(ah, path))
}

/// The IP level behind an address vector, less what depends on the QPs.
fn path(device: &Device, ah: &AhAttr) -> Result<Path, Error> {
    if !ah.is_global {
        return Err(Error::NotGlobal);
    }
    let sgid = device.gid(u32::from(ah.port_num), ah.sgid_index)?;
    if sgid.is_zero() {
        return Err(Error::GidEmpty(ah.sgid_index));
    }
    let (src, dst) = (sgid.ip(), ah.dgid.ip());
    if ah.dgid.is_zero() || dst.is_unspecified() {
        return Err(Error::GidNotUnicast(ah.dgid));
    }
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(Error::GidVersions { sgid, dgid: ah.dgid });
    }
    Ok(Path {
        src,
        dst,
        interface: if needs_interface(dst) { device.interface_index() } else { 0 },
        traffic_class: ah.traffic_class,
        hop_limit: if ah.hop_limit == 0 { DEFAULT_HOP_LIMIT } else { ah.hop_limit },
        flow_label: ah.flow_label,
        source_port: source_port(ah.flow_label, 0, 0),
        receiver: None,
    })
}

fn address_vector(ah: &AhAttr, path: Path) -> AddressVector {
    AddressVector {
        dgid: ah.dgid.0,
        flow_label: ah.flow_label,
        sgid_index: ah.sgid_index as u8,
        hop_limit: ah.hop_limit,
        traffic_class: ah.traffic_class,
        sl: ah.sl,
        port_num: ah.port_num,
        path,
    }
}

/// Whether an address alone does not say which interface it is on.
fn needs_interface(dst: IpAddr) -> bool {
    dst.is_multicast() || matches!(dst, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Whether `dst` is an address of this host.
fn is_of_this_host(src: IpAddr, dst: IpAddr) -> bool {
    let has = |addrs: &[IpAddr]| addrs.contains(&dst);
    src == dst || dst.is_loopback() || interfaces::list().is_ok_and(|all| all.iter().any(|it| has(&it.addrs)))
}

/// The slot of the process that a QPN belongs to, on this host.
fn slot_of(qpn: Qpn) -> u8 {
    (qpn.value() >> SLOT_SHIFT) as u8
}

/// Bytes in front of a received datagram's payload.
const GRH_LEN: usize = 40;

/// The only port.
const PORT_NUM: u8 = 1;

/// A QPN's slot is its top byte.
const SLOT_SHIFT: u32 = 16;

/// Hop limit of packets whose address vector says 0, as a host's routes have it.
const DEFAULT_HOP_LIMIT: u8 = 64;
