//! The verbs of endpoints: each is the library's call of that name.

use super::UdpFabric;
use super::end::UdpEnd;
use super::refuse::unknown;
use crate::verbs::{
    Ah, AhAttr, AsyncEvent, Cq, CqOverrun, Data, Datagram, DeviceLimits, Endpoint, Gid, Mr, MrChange, MrSpec,
    Mw, Pd, PostRefused, Qp, QpSpec, Refused, SendWr, Srq, SrqAttr, SrqSpec, To, Verbs, Xrcd,
};
use ferroce::core::{
    MwBind, MwType, PathMtu, Payload, QpAttr, QpAttrMask, RecvWr, Remote, SendFlags, SendWr as CoreSendWr,
    Srqn, Wc,
};
use ferroce_wire::Qpn;

/// The device's only port.
const PORT: u32 = 1;

impl Verbs for UdpFabric {
    fn query_device(&mut self, at: Endpoint) -> DeviceLimits {
        let device = self.ends[at.0].context.device();
        let attr = device.attr();
        DeviceLimits {
            max_qp_wr: attr.max_qp_wr,
            max_sge: attr.max_sge,
            max_cqe: attr.max_cqe,
            max_srq_wr: attr.max_srq_wr,
            max_qp_rd_atom: attr.max_qp_rd_atom as u8,
            max_msg_sz: device.port_attr(PORT).map_or(0, |port| port.max_msg_sz),
        }
    }

    fn active_mtu(&mut self, at: Endpoint) -> PathMtu {
        let port = self.ends[at.0].context.device().port_attr(PORT);
        port.map_or(PathMtu::Mtu256, |port| port.active_mtu)
    }

    fn query_gid(&mut self, at: Endpoint, index: u32) -> Result<Gid, Refused> {
        Ok(self.ends[at.0].context.device().gid(PORT, index)?)
    }

    fn alloc(&mut self, at: Endpoint, len: usize) -> u64 {
        self.ends[at.0].memory.alloc(len)
    }

    fn write_memory(&mut self, at: Endpoint, addr: u64, bytes: &[u8]) {
        self.ends[at.0].memory.write(addr, bytes);
    }

    fn read_memory(&mut self, at: Endpoint, addr: u64, len: usize) -> Vec<u8> {
        self.ends[at.0].memory.read(addr, len)
    }

    fn alloc_pd(&mut self, at: Endpoint) -> Result<Pd, Refused> {
        let end = &mut self.ends[at.0];
        end.pds.push(Some(end.context.alloc_pd()?));
        Ok(Pd { at, number: end.pds.len() - 1 })
    }

    fn dealloc_pd(&mut self, pd: Pd) -> Result<(), Refused> {
        let end = &mut self.ends[pd.at.0];
        end.pd(pd.number)?.close()?;
        end.pds[pd.number] = None;
        Ok(())
    }

    fn reg_mr(&mut self, pd: Pd, spec: &MrSpec) -> Result<Mr, Refused> {
        let end = &mut self.ends[pd.at.0];
        let owner = end.pds.get(pd.number).and_then(Option::as_ref).ok_or_else(|| unknown("PD"))?;
        let number = end.memory.register(owner, spec)?;
        let mr = end.memory.region(number).ok_or_else(|| unknown("MR"))?;
        Ok(Mr { at: pd.at, number, lkey: mr.lkey(), rkey: mr.rkey() })
    }

    fn dereg_mr(&mut self, mr: Mr) -> Result<(), Refused> {
        self.ends[mr.at.0].memory.deregister(mr.number)
    }

    fn rereg_mr(&mut self, mr: Mr, change: &MrChange) -> Result<(), Refused> {
        let end = &self.ends[mr.at.0];
        let pd = change.pd.map(|pd| end.pd(pd.number)).transpose()?;
        end.memory.reregister(mr.number, pd, change)
    }

    fn alloc_null_mr(&mut self, pd: Pd) -> Result<Mr, Refused> {
        let end = &mut self.ends[pd.at.0];
        let mr = end.pd(pd.number)?.alloc_null_mr()?;
        let (lkey, rkey) = (mr.lkey(), mr.rkey());
        Ok(Mr { at: pd.at, number: end.memory.keep(mr), lkey, rkey })
    }

    fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Result<Mw, Refused> {
        let end = &mut self.ends[pd.at.0];
        let mw = end.pd(pd.number)?.alloc_mw(mw_type)?;
        let rkey = mw.rkey();
        end.mws.push(Some(mw));
        Ok(Mw { at: pd.at, number: end.mws.len() - 1, rkey })
    }

    fn bind_mw(
        &mut self,
        qp: Qp,
        mw: Mw,
        wr_id: u64,
        flags: SendFlags,
        bind: MwBind,
    ) -> Result<u32, PostRefused> {
        let end = &self.ends[qp.at.0];
        let refused = |refused| PostRefused { index: 0, refused };
        let (qp, mw) = (end.qp(qp.number).map_err(refused)?, end.mw(mw.number).map_err(refused)?);
        qp.bind_mw(mw, wr_id, flags, bind)?;
        Ok(mw.rkey())
    }

    fn dealloc_mw(&mut self, mw: Mw) -> Result<(), Refused> {
        let end = &mut self.ends[mw.at.0];
        end.mw(mw.number)?;
        end.mws[mw.number] = None;
        Ok(())
    }

    fn create_cq(&mut self, at: Endpoint, cqe: u32) -> Result<Cq, Refused> {
        Ok(Cq { at, number: self.ends[at.0].add_cq(cqe)? })
    }

    fn resize_cq(&mut self, cq: Cq, cqe: u32) -> Result<(), Refused> {
        Ok(self.ends[cq.at.0].cq(cq.number)?.cq.resize(cqe)?)
    }

    fn destroy_cq(&mut self, cq: Cq) -> Result<(), Refused> {
        let end = &mut self.ends[cq.at.0];
        end.cq(cq.number)?.cq.close()?;
        end.cqs[cq.number] = None;
        Ok(())
    }

    fn poll_cq(&mut self, cq: Cq, max: usize) -> Result<Vec<Wc>, CqOverrun> {
        match self.ends[cq.at.0].cq(cq.number) {
            Ok(cq) => cq.cq.poll(max).map_err(|_| CqOverrun),
            Err(_) => Ok(Vec::new()),
        }
    }

    fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), Refused> {
        Ok(self.ends[cq.at.0].cq(cq.number)?.cq.req_notify(solicited_only)?)
    }

    fn take_cq_event(&mut self, cq: Cq) -> bool {
        self.ends[cq.at.0].cq(cq.number).is_ok_and(super::end::EndCq::take_event)
    }

    fn create_qp(&mut self, pd: Pd, spec: &QpSpec) -> Result<Qp, Refused> {
        let end = &mut self.ends[pd.at.0];
        let spec = ferroce::QpSpec {
            qp_type: spec.qp_type,
            send_cq: &end.cq(spec.send_cq.number)?.cq,
            recv_cq: &end.cq(spec.recv_cq.number)?.cq,
            caps: spec.caps,
            sq_sig_all: spec.sq_sig_all,
            cookie: end.next_qp_cookie(),
            srq: spec.srq.map(|srq| end.srq(srq.number)).transpose()?,
            block_self_mcast: false,
        };
        let qp = end.pd(pd.number)?.create_qp(&spec)?;
        end.qps.push(Some(qp));
        Ok(Qp { at: pd.at, number: end.qps.len() - 1 })
    }

    fn create_xrc_target(&mut self, xrcd: Xrcd) -> Result<Qp, Refused> {
        let end = &mut self.ends[xrcd.at.0];
        let qp = end.xrcd(xrcd.number)?.create_target(end.next_qp_cookie())?;
        end.qps.push(Some(qp));
        Ok(Qp { at: xrcd.at, number: end.qps.len() - 1 })
    }

    fn modify_qp(
        &mut self,
        qp: Qp,
        attr: &QpAttr,
        ah: Option<&AhAttr>,
        mask: QpAttrMask,
    ) -> Result<(), Refused> {
        Ok(self.ends[qp.at.0].qp(qp.number)?.modify(attr, ah, mask)?)
    }

    fn query_qp(&mut self, qp: Qp) -> Result<QpAttr, Refused> {
        Ok(self.ends[qp.at.0].qp(qp.number)?.query()?)
    }

    fn destroy_qp(&mut self, qp: Qp) -> Result<(), Refused> {
        let end = &mut self.ends[qp.at.0];
        end.qp(qp.number)?.close()?;
        end.qps[qp.number] = None;
        Ok(())
    }

    fn qpn(&mut self, qp: Qp) -> Qpn {
        self.ends[qp.at.0].qp(qp.number).expect("cases ask for QPs that they made").qpn()
    }

    fn post_send(&mut self, qp: Qp, wrs: Vec<SendWr>) -> Result<(), PostRefused> {
        let end = &self.ends[qp.at.0];
        let qp = end.qp(qp.number).map_err(|refused| PostRefused { index: 0, refused })?;
        let mut list = Vec::new();
        let mut unnamed = Ok(());
        for (index, wr) in wrs.into_iter().enumerate() {
            match to_library(end, qp.qpn(), wr) {
                Ok(wr) => list.push(wr),
                Err(refused) => {
                    unnamed = Err(PostRefused { index, refused });
                    break;
                }
            }
        }
        // What comes before a request with a handle that nobody gave out is posted.
        qp.post_send(list)?;
        unnamed
    }

    fn post_recv(&mut self, qp: Qp, wrs: Vec<RecvWr>) -> Result<(), PostRefused> {
        let qp = self.ends[qp.at.0].qp(qp.number).map_err(|refused| PostRefused { index: 0, refused })?;
        Ok(qp.post_recv(wrs)?)
    }

    fn create_srq(&mut self, pd: Pd, spec: &SrqSpec) -> Result<Srq, Refused> {
        let end = &mut self.ends[pd.at.0];
        let SrqSpec { max_wr, max_sge, xrc } = *spec;
        let xrc = match xrc {
            Some((xrcd, cq)) => Some((end.xrcd(xrcd.number)?, &end.cq(cq.number)?.cq)),
            None => None,
        };
        let spec = ferroce::SrqSpec { max_wr, max_sge, xrc, cookie: end.next_srq_cookie() };
        let srq = end.pd(pd.number)?.create_srq(&spec)?;
        end.srqs.push(Some(srq));
        Ok(Srq { at: pd.at, number: end.srqs.len() - 1 })
    }

    fn srqn(&mut self, srq: Srq) -> Srqn {
        self.ends[srq.at.0].srq(srq.number).expect("cases ask for SRQs that they made").srqn()
    }

    fn query_srq(&mut self, srq: Srq) -> Result<SrqAttr, Refused> {
        let ferroce::SrqAttr { max_wr, max_sge, limit } = self.ends[srq.at.0].srq(srq.number)?.query()?;
        Ok(SrqAttr { max_wr, max_sge, srq_limit: limit })
    }

    fn modify_srq(&mut self, srq: Srq, max_wr: Option<u32>, srq_limit: Option<u32>) -> Result<(), Refused> {
        Ok(self.ends[srq.at.0].srq(srq.number)?.modify(max_wr, srq_limit)?)
    }

    fn destroy_srq(&mut self, srq: Srq) -> Result<(), Refused> {
        let end = &mut self.ends[srq.at.0];
        end.srq(srq.number)?.close()?;
        end.srqs[srq.number] = None;
        Ok(())
    }

    fn post_srq_recv(&mut self, srq: Srq, wrs: Vec<RecvWr>) -> Result<(), PostRefused> {
        let srq = self.ends[srq.at.0].srq(srq.number).map_err(|refused| PostRefused { index: 0, refused })?;
        Ok(srq.post_recv(wrs)?)
    }

    fn open_xrcd(&mut self, at: Endpoint) -> Result<Xrcd, Refused> {
        let end = &mut self.ends[at.0];
        end.xrcds.push(Some(end.context.open_xrcd(None, ferroce::XrcdFlags::default())?));
        Ok(Xrcd { at, number: end.xrcds.len() - 1 })
    }

    fn close_xrcd(&mut self, xrcd: Xrcd) -> Result<(), Refused> {
        let end = &mut self.ends[xrcd.at.0];
        end.xrcd(xrcd.number)?.close()?;
        end.xrcds[xrcd.number] = None;
        Ok(())
    }

    fn create_ah(&mut self, pd: Pd, attr: &AhAttr) -> Result<Ah, Refused> {
        let end = &mut self.ends[pd.at.0];
        let ah = end.pd(pd.number)?.create_ah(attr)?;
        end.ahs.push(ah);
        Ok(Ah { at: pd.at, number: end.ahs.len() - 1 })
    }

    fn attach_mcast(&mut self, qp: Qp, group: Gid) -> Result<(), Refused> {
        Ok(self.ends[qp.at.0].qp(qp.number)?.attach_mcast(group)?)
    }

    fn detach_mcast(&mut self, qp: Qp, group: Gid) -> Result<(), Refused> {
        Ok(self.ends[qp.at.0].qp(qp.number)?.detach_mcast(group)?)
    }

    fn take_async_event(&mut self, at: Endpoint) -> Option<AsyncEvent> {
        self.ends[at.0].take_async_event()
    }
}

fn to_library(end: &UdpEnd, from: Qpn, wr: SendWr) -> Result<CoreSendWr, Refused> {
    let remote = match wr.to {
        To::Datagram(Datagram { ah, qpn, qkey }) => end.ah(ah.number)?.remote(from, qpn, qkey),
        To::Srq(srqn) => Remote::Srq(srqn),
        To::Peer => Remote::Peer,
    };
    let (payload, inline) = match wr.data {
        Data::Sges(sges) => (Payload::Sges(sges), SendFlags::empty()),
        Data::Inline(bytes) => (Payload::Inline(bytes.into()), SendFlags::INLINE),
    };
    Ok(CoreSendWr { wr_id: wr.wr_id, op: wr.op, flags: wr.flags | inline, payload, remote })
}
