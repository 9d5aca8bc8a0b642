//! The verbs of simulated endpoints: calls into the core, and nothing that the core does not decide itself.

use super::SimFabric;
use super::cq::{Armed, SimCq};
use crate::verbs::{
    Ah, AhAttr, AsyncEvent, Cq, CqOverrun, Data, Datagram, DeviceLimits, Endpoint, Errno, Gid, Mr, MrChange,
    MrSpec, Mw, Pd, PostRefused, Qp, QpSpec, Refused, SendWr, Srq, SrqAttr, SrqSpec, To, Verbs, Xrcd,
};
use ferroce_core::{
    AddressVector, CqId, DeregisterError, MwBind, MwType, Path, PathMtu, Payload, PdId, Profile, QpAttr,
    QpAttrMask, QpInit, QpState, QpType, RecvWr, RegionChange, RegionSpec, Remote, ReregisterError,
    SendFlags, SendOp, SendWr as CoreSendWr, SrqInit, Srqn, Wc, XrcSrq, XrcdId,
};
use ferroce_wire::Qpn;
use std::fmt::Display;
use std::sync::Arc;

/// GIDs: IPv4 at 0, IPv6 at 1.
const GID_COUNT: u32 = 2;
/// A queue's length, which the core leaves to its owner.
const MAX_WR: u32 = 1 << 16;
const MAX_SGE: u32 = 32;

impl SimFabric {
    fn qpn_of(&self, qp: Qp) -> Result<Qpn, Refused> {
        let qpn = self.hosts[qp.at.0].qps.get(qp.number).copied().flatten();
        qpn.ok_or_else(|| invalid(format_args!("there is no QP {}", qp.number)))
    }

    fn cq_of(&mut self, cq: Cq) -> Option<&mut SimCq> {
        self.hosts[cq.at.0].cqs.get_mut(cq.number)?.as_mut()
    }

    /// The IP level behind an address vector; none without a global route, which the core refuses.
    fn resolve(&self, at: Endpoint, ah: &AhAttr) -> Result<Option<AddressVector>, Refused> {
        if !ah.is_global {
            return Ok(None);
        }
        if ah.sgid_index >= GID_COUNT {
            return Err(invalid(format_args!("GID index {} is empty", ah.sgid_index)));
        }
        let src = self.network.address(self.host(at), ah.sgid_index == 1);
        let dst = ah.dgid.ip();
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(invalid(format_args!("{src} and {dst} are of different IP versions")));
        }
        let path = Path {
            src,
            dst,
            interface: 0,
            traffic_class: ah.traffic_class,
            hop_limit: ah.hop_limit,
            flow_label: ah.flow_label,
            source_port: SOURCE_PORT,
            receiver: None,
        };
        Ok(Some(AddressVector {
            dgid: ah.dgid.0,
            flow_label: ah.flow_label,
            sgid_index: ah.sgid_index as u8,
            hop_limit: ah.hop_limit,
            traffic_class: ah.traffic_class,
            sl: ah.sl,
            port_num: ah.port_num,
            path,
        }))
    }

    fn srq_of(&self, srq: Srq) -> Result<(Srqn, SrqSpec), Refused> {
        let found = self.hosts[srq.at.0].srqs.get(srq.number).copied().flatten();
        found.ok_or_else(|| invalid(format_args!("there is no SRQ {}", srq.number)))
    }

    fn remote(&self, to: To) -> Result<Remote, Refused> {
        let Datagram { ah, qpn, qkey } = match to {
            To::Peer => return Ok(Remote::Peer),
            To::Srq(srqn) => return Ok(Remote::Srq(srqn)),
            To::Datagram(datagram) => datagram,
        };
        let found = self.hosts[ah.at.0].ahs.get(ah.number);
        let (pd, av) =
            found.ok_or_else(|| invalid(format_args!("there is no address handle {}", ah.number)))?;
        let ah = Arc::new(*av);
        Ok(Remote::Datagram { ah, pd: *pd, qpn, qkey, source_port: SOURCE_PORT, receiver: None })
    }

    fn to_core(&self, wr: SendWr) -> Result<CoreSendWr, Refused> {
        let remote = self.remote(wr.to)?;
        let (payload, inline) = match wr.data {
            Data::Sges(sges) => (Payload::Sges(sges), SendFlags::empty()),
            Data::Inline(bytes) => (Payload::Inline(bytes.into()), SendFlags::INLINE),
        };
        Ok(CoreSendWr { wr_id: wr.wr_id, op: wr.op, flags: wr.flags | inline, payload, remote })
    }
}

impl Verbs for SimFabric {
    fn query_device(&mut self, _: Endpoint) -> DeviceLimits {
        let profile = Profile::default();
        DeviceLimits {
            max_qp_wr: MAX_WR,
            max_sge: MAX_SGE,
            max_cqe: u32::MAX,
            max_srq_wr: MAX_WR,
            max_qp_rd_atom: profile.max_rd_atomic,
            max_msg_sz: profile.max_message,
        }
    }

    fn active_mtu(&mut self, at: Endpoint) -> PathMtu {
        self.network.network.active_mtu(self.host(at))
    }

    fn query_gid(&mut self, at: Endpoint, index: u32) -> Result<Gid, Refused> {
        Ok(match index {
            0..GID_COUNT => Gid::from_ip(self.network.address(self.host(at), index == 1)),
            _ => Gid::default(),
        })
    }

    fn alloc(&mut self, at: Endpoint, len: usize) -> u64 {
        let host = self.host(at);
        self.network.network.alloc(host, len)
    }

    fn write_memory(&mut self, at: Endpoint, addr: u64, bytes: &[u8]) {
        let memory = self.network.network.memory(self.host(at));
        memory.put(addr, bytes).expect("cases write where they allocated");
    }

    fn read_memory(&mut self, at: Endpoint, addr: u64, len: usize) -> Vec<u8> {
        let memory = self.network.network.memory(self.host(at));
        memory.get(addr, len).expect("cases read where they allocated")
    }

    fn alloc_pd(&mut self, at: Endpoint) -> Result<Pd, Refused> {
        self.hosts[at.0].pds += 1;
        Ok(Pd { at, number: self.hosts[at.0].pds })
    }

    fn dealloc_pd(&mut self, _: Pd) -> Result<(), Refused> {
        Ok(())
    }

    fn reg_mr(&mut self, pd: Pd, spec: &MrSpec) -> Result<Mr, Refused> {
        let MrSpec { addr, length, iova, access } = *spec;
        let host = self.host(pd.at);
        let spec = RegionSpec { pd: pd_id(pd), addr, length, iova, access };
        let keys = self.network.network.register(host, spec).map_err(invalid)?;
        let mrs = &mut self.hosts[pd.at.0].mrs;
        mrs.push(Some(keys));
        Ok(Mr { at: pd.at, number: mrs.len() - 1, lkey: keys.lkey, rkey: keys.rkey })
    }

    fn dereg_mr(&mut self, mr: Mr) -> Result<(), Refused> {
        let host = self.host(mr.at);
        self.network.network.deregister(host, mr.lkey).map_err(|error| match error {
            DeregisterError::Key(_) => invalid(error),
            DeregisterError::WindowsBound { .. } => {
                Refused { errno: Errno::EBUSY, reason: error.to_string() }
            }
        })?;
        self.hosts[mr.at.0].mrs[mr.number] = None;
        Ok(())
    }

    fn rereg_mr(&mut self, mr: Mr, change: &MrChange) -> Result<(), Refused> {
        let host = self.host(mr.at);
        let change = RegionChange {
            pd: change.pd.map(pd_id),
            memory: change.memory.map(|(addr, length)| (addr, length, addr)),
            access: change.access,
        };
        let changed = self.network.network.call(host, |device, _, _| device.reregister(mr.lkey, &change));
        changed.map_err(|error| match error {
            ReregisterError::WindowsBound { .. } => {
                Refused { errno: Errno::EBUSY, reason: error.to_string() }
            }
            _ => invalid(error),
        })
    }

    fn alloc_null_mr(&mut self, pd: Pd) -> Result<Mr, Refused> {
        let host = self.host(pd.at);
        let made = self.network.network.call(host, |device, _, _| device.register_null(pd_id(pd)));
        let keys = made.map_err(invalid)?;
        let mrs = &mut self.hosts[pd.at.0].mrs;
        mrs.push(Some(keys));
        Ok(Mr { at: pd.at, number: mrs.len() - 1, lkey: keys.lkey, rkey: keys.rkey })
    }

    fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Result<Mw, Refused> {
        let host = self.host(pd.at);
        let made = self.network.network.call(host, |device, _, _| device.alloc_mw(pd_id(pd), mw_type));
        let rkey = made.map_err(invalid)?;
        let mws = &mut self.hosts[pd.at.0].mws;
        mws.push(rkey);
        Ok(Mw { at: pd.at, number: mws.len() - 1, rkey })
    }

    fn bind_mw(
        &mut self,
        qp: Qp,
        mw: Mw,
        wr_id: u64,
        flags: SendFlags,
        bind: MwBind,
    ) -> Result<u32, PostRefused> {
        // What `ibv_bind_mw(3)` does in a verbs library: the next key byte, and a work request.
        let before = self.hosts[mw.at.0].mws[mw.number];
        let rkey = before & !0xff | before.wrapping_add(1) & 0xff;
        let data = Data::Sges(Default::default());
        self.post_send(
            qp,
            vec![SendWr { wr_id, op: SendOp::BindMw { rkey, bind }, flags, data, to: To::Peer }],
        )?;
        self.hosts[mw.at.0].mws[mw.number] = rkey;
        Ok(rkey)
    }

    fn dealloc_mw(&mut self, mw: Mw) -> Result<(), Refused> {
        let host = self.host(mw.at);
        self.network.network.call(host, |device, _, _| device.dealloc_mw(mw.rkey)).map_err(invalid)
    }

    fn create_cq(&mut self, at: Endpoint, cqe: u32) -> Result<Cq, Refused> {
        let cqs = &mut self.hosts[at.0].cqs;
        cqs.push(Some(SimCq::new(cqe)));
        Ok(Cq { at, number: cqs.len() - 1 })
    }

    fn resize_cq(&mut self, _: Cq, _: u32) -> Result<(), Refused> {
        Err(Refused { errno: Errno::EOPNOTSUPP, reason: "the core has no CQs to resize".into() })
    }

    fn destroy_cq(&mut self, cq: Cq) -> Result<(), Refused> {
        self.hosts[cq.at.0].cqs[cq.number] = None;
        Ok(())
    }

    fn poll_cq(&mut self, cq: Cq, max: usize) -> Result<Vec<Wc>, CqOverrun> {
        self.deliver_to(cq.at);
        self.cq_of(cq).map_or(Ok(Vec::new()), |cq| cq.poll(max))
    }

    fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), Refused> {
        self.deliver_to(cq.at);
        let armed = if solicited_only { Armed::SolicitedOnly } else { Armed::Any };
        if let Some(cq) = self.cq_of(cq) {
            cq.arm(armed);
        }
        Ok(())
    }

    fn take_cq_event(&mut self, cq: Cq) -> bool {
        self.deliver_to(cq.at);
        self.cq_of(cq).is_some_and(SimCq::take_event)
    }

    fn create_qp(&mut self, pd: Pd, spec: &QpSpec) -> Result<Qp, Refused> {
        let cqs = [spec.send_cq, spec.recv_cq].map(|cq| CqId(cq.number as u32));
        let mtu = self.active_mtu(pd.at);
        let init = QpInit {
            caps: spec.caps,
            sq_sig_all: spec.sq_sig_all,
            srq: spec.srq.map(|srq| self.srq_of(srq)).transpose()?.map(|(srqn, _)| srqn),
            ..QpInit::new(spec.qp_type, pd_id(pd), cqs[0], cqs[1], mtu)
        };
        let host = self.host(pd.at);
        let qpn = self.network.network.create_qp(host, init).map_err(invalid)?;
        let qps = &mut self.hosts[pd.at.0].qps;
        qps.push(Some(qpn));
        Ok(Qp { at: pd.at, number: qps.len() - 1 })
    }

    fn create_xrc_target(&mut self, xrcd: Xrcd) -> Result<Qp, Refused> {
        let mtu = self.active_mtu(xrcd.at);
        // It has neither a PD nor a CQ.
        let none = CqId(u32::MAX);
        let init = QpInit {
            xrcd: Some(xrcd_id(xrcd)),
            ..QpInit::new(QpType::XrcTgt, PdId(u32::MAX), none, none, mtu)
        };
        let host = self.host(xrcd.at);
        let qpn = self.network.network.create_qp(host, init).map_err(invalid)?;
        let qps = &mut self.hosts[xrcd.at.0].qps;
        qps.push(Some(qpn));
        Ok(Qp { at: xrcd.at, number: qps.len() - 1 })
    }

    fn modify_qp(
        &mut self,
        qp: Qp,
        attr: &QpAttr,
        ah: Option<&AhAttr>,
        mask: QpAttrMask,
    ) -> Result<(), Refused> {
        let qpn = self.qpn_of(qp)?;
        let mut attr = QpAttr { av: None, ..*attr };
        if let (true, Some(ah)) = (mask.contains(QpAttrMask::AV), ah) {
            attr.av = self.resolve(qp.at, ah)?;
        }
        let host = self.host(qp.at);
        self.network.network.modify_qp(host, qpn, &attr, mask).map_err(invalid)?;
        self.deliver_to(qp.at);
        if mask.contains(QpAttrMask::STATE) && attr.qp_state == QpState::Reset {
            self.hosts[qp.at.0].cqs.iter_mut().flatten().for_each(|cq| cq.forget(qpn));
        }
        Ok(())
    }

    fn query_qp(&mut self, qp: Qp) -> Result<QpAttr, Refused> {
        let (host, qpn) = (self.host(qp.at), self.qpn_of(qp)?);
        self.network.network.call(host, |device, _, _| device.query_qp(qpn)).map_err(invalid)
    }

    fn destroy_qp(&mut self, qp: Qp) -> Result<(), Refused> {
        let (host, qpn) = (self.host(qp.at), self.qpn_of(qp)?);
        self.network.network.destroy_qp(host, qpn).map_err(invalid)?;
        self.hosts[qp.at.0].qps[qp.number] = None;
        self.hosts[qp.at.0].cqs.iter_mut().flatten().for_each(|cq| cq.forget(qpn));
        Ok(())
    }

    fn qpn(&mut self, qp: Qp) -> Qpn {
        self.qpn_of(qp).expect("cases ask for QPs that they made")
    }

    fn post_send(&mut self, qp: Qp, wrs: Vec<SendWr>) -> Result<(), PostRefused> {
        let host = self.host(qp.at);
        for (index, wr) in wrs.into_iter().enumerate() {
            let posted = self.qpn_of(qp).and_then(|qpn| {
                let wr = self.to_core(wr)?;
                self.network.network.post_send(host, qpn, wr).map_err(invalid)
            });
            posted.map_err(|refused| PostRefused { index, refused })?;
        }
        Ok(())
    }

    fn post_recv(&mut self, qp: Qp, wrs: Vec<RecvWr>) -> Result<(), PostRefused> {
        let host = self.host(qp.at);
        for (index, wr) in wrs.into_iter().enumerate() {
            let posted = self
                .qpn_of(qp)
                .and_then(|qpn| self.network.network.post_recv(host, qpn, wr).map_err(invalid));
            posted.map_err(|refused| PostRefused { index, refused })?;
        }
        Ok(())
    }

    fn create_srq(&mut self, pd: Pd, spec: &SrqSpec) -> Result<Srq, Refused> {
        let xrc = spec.xrc.map(|(xrcd, cq)| XrcSrq { xrcd: xrcd_id(xrcd), cq: CqId(cq.number as u32) });
        let init = SrqInit { pd: pd_id(pd), xrc };
        let host = self.host(pd.at);
        let srqn = self.network.network.call(host, |device, _, _| device.create_srq(init));
        let srqs = &mut self.hosts[pd.at.0].srqs;
        srqs.push(Some((srqn.map_err(invalid)?, *spec)));
        Ok(Srq { at: pd.at, number: srqs.len() - 1 })
    }

    fn srqn(&mut self, srq: Srq) -> Srqn {
        self.srq_of(srq).expect("cases ask for SRQs that they made").0
    }

    fn query_srq(&mut self, srq: Srq) -> Result<SrqAttr, Refused> {
        let (host, (srqn, spec)) = (self.host(srq.at), self.srq_of(srq)?);
        let limit = self.network.network.call(host, |device, _, _| device.srq_limit(srqn));
        let SrqSpec { max_wr, max_sge, .. } = spec;
        Ok(SrqAttr { max_wr, max_sge, srq_limit: limit.map_err(invalid)? })
    }

    fn modify_srq(&mut self, srq: Srq, max_wr: Option<u32>, srq_limit: Option<u32>) -> Result<(), Refused> {
        if max_wr.is_some() {
            return Err(Refused { errno: Errno::EOPNOTSUPP, reason: "the core's SRQs have no size".into() });
        }
        let (host, (srqn, _)) = (self.host(srq.at), self.srq_of(srq)?);
        let Some(limit) = srq_limit else { return Ok(()) };
        self.network.network.call(host, |device, _, _| device.arm_srq(srqn, limit)).map_err(invalid)
    }

    fn destroy_srq(&mut self, srq: Srq) -> Result<(), Refused> {
        let (host, (srqn, _)) = (self.host(srq.at), self.srq_of(srq)?);
        let destroyed = self.network.network.call(host, |device, _, _| device.destroy_srq(srqn));
        destroyed.map_err(|error| Refused { errno: Errno::EBUSY, reason: error.to_string() })?;
        self.hosts[srq.at.0].srqs[srq.number] = None;
        Ok(())
    }

    fn post_srq_recv(&mut self, srq: Srq, wrs: Vec<RecvWr>) -> Result<(), PostRefused> {
        let host = self.host(srq.at);
        for (index, wr) in wrs.into_iter().enumerate() {
            let posted = self.srq_of(srq).and_then(|(srqn, _)| {
                let posted = self.network.network.call(host, |device, _, _| device.post_srq_recv(srqn, wr));
                posted.map_err(invalid)
            });
            posted.map_err(|refused| PostRefused { index, refused })?;
        }
        Ok(())
    }

    fn open_xrcd(&mut self, at: Endpoint) -> Result<Xrcd, Refused> {
        self.hosts[at.0].xrcds += 1;
        Ok(Xrcd { at, number: self.hosts[at.0].xrcds })
    }

    fn close_xrcd(&mut self, _: Xrcd) -> Result<(), Refused> {
        Ok(())
    }

    fn create_ah(&mut self, pd: Pd, attr: &AhAttr) -> Result<Ah, Refused> {
        let av = self.resolve(pd.at, attr)?;
        let av = av.ok_or_else(|| invalid("the address vector has no global route"))?;
        let ahs = &mut self.hosts[pd.at.0].ahs;
        ahs.push((pd_id(pd), av));
        Ok(Ah { at: pd.at, number: ahs.len() - 1 })
    }

    fn attach_mcast(&mut self, qp: Qp, group: Gid) -> Result<(), Refused> {
        let (host, qpn) = (self.host(qp.at), self.qpn_of(qp)?);
        self.network.network.call(host, |device, _, _| device.attach_mcast(qpn, group.0)).map_err(invalid)
    }

    fn detach_mcast(&mut self, qp: Qp, group: Gid) -> Result<(), Refused> {
        let (host, qpn) = (self.host(qp.at), self.qpn_of(qp)?);
        self.network.network.call(host, |device, _, _| device.detach_mcast(qpn, group.0)).map_err(invalid)
    }

    fn take_async_event(&mut self, at: Endpoint) -> Option<AsyncEvent> {
        self.deliver_to(at);
        self.hosts[at.0].events.pop_front()
    }
}

fn xrcd_id(xrcd: Xrcd) -> XrcdId {
    XrcdId(xrcd.number as u32)
}

fn pd_id(pd: Pd) -> PdId {
    PdId(pd.number as u32)
}

/// The core refuses with reasons; all but a full table are EINVAL.
fn invalid(reason: impl Display) -> Refused {
    Refused { errno: Errno::EINVAL, reason: reason.to_string() }
}

/// One UDP source port for everything: links have one way.
const SOURCE_PORT: u16 = 0xc000;
