use crate::end::{ALL, End, Plan, loopback};
use ferroce::core::*;
use ferroce::{QpSpec};
use std::time::{Duration, Instant};

#[test]
fn many_pairs() {
    let pairs: usize = std::env::var("PAIRS").ok().and_then(|v| v.parse().ok()).unwrap_or(2000);
    let depth: u32 = std::env::var("DEPTH").ok().and_then(|v| v.parse().ok()).unwrap_or(4);
    let len: u32 = std::env::var("LEN").ok().and_then(|v| v.parse().ok()).unwrap_or(64);
    let secs: u64 = std::env::var("SECS").ok().and_then(|v| v.parse().ok()).unwrap_or(10);
    let plan = Plan { cqe: 4_000_000, ..Plan::default() };
    let context = loopback().open().unwrap();
    let end = End::new(&context, plan);
    let spec = QpSpec { qp_type: QpType::Rc, send_cq: &end.cq, recv_cq: &end.cq, srq: None,
        caps: QpCaps { max_send_wr: depth.max(1), ..plan.caps }, sq_sig_all: true, block_self_mcast: false, cookie: 0 };
    let gid = ferroce::Gid::from_ip(plan.gid);
    let gids = context.device().gids();
    let (sgid_index, _) = gids.iter().find(|(_, own)| *own == gid).unwrap();
    let ah = ferroce::AhAttr { is_global: true, dgid: gid, sgid_index: *sgid_index, flow_label: 0, hop_limit: 64, traffic_class: 0, sl: 0, port_num: 1 };
    let t = Instant::now();
    let qps: Vec<_> = (0..2 * pairs).map(|_| end.pd.create_qp(&spec).unwrap()).collect();
    for (i, qp) in qps.iter().enumerate() {
        let peer = &qps[i ^ 1];
        let m = |s, mask: QpAttrMask, ah: Option<&ferroce::AhAttr>| {
            let attr = QpAttr { qp_state: s, access: ALL, path_mtu: PathMtu::Mtu1024, dest_qpn: peer.qpn(), max_dest_rd_atomic: 4, min_rnr_timer: 1, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4, ..QpAttr::default() };
            qp.modify(&attr, ah, mask | QpAttrMask::STATE).unwrap();
        };
        m(QpState::Init, QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS, None);
        m(QpState::Rtr, QpAttrMask::AV | QpAttrMask::PATH_MTU | QpAttrMask::DEST_QPN | QpAttrMask::RQ_PSN | QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER, Some(&ah));
        m(QpState::Rts, QpAttrMask::SQ_PSN | QpAttrMask::TIMEOUT | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY | QpAttrMask::MAX_QP_RD_ATOMIC, None);
    }
    eprintln!("made {} QPs in {:?}", qps.len(), t.elapsed());
    let by: std::collections::HashMap<_, _> = qps.iter().enumerate().map(|(i, q)| (q.qpn(), i)).collect();
    let post = |i: usize| {
        let sge = Sge { addr: end.addr(0), length: len, lkey: end.mr.lkey() };
        let wr = SendWr { wr_id: i as u64, op: SendOp::Write { va: end.addr(16*1024), rkey: end.mr.rkey() }, flags: SendFlags::SIGNALED, payload: Payload::Sges([sge].into_iter().collect()), remote: Remote::Peer };
        qps[i].post_send([wr]).unwrap();
    };
    let start = Instant::now();
    for _ in 0..depth { for i in 0..qps.len() { post(i); } }
    let (mut done, mut bad, mut last) = (0u64, 0u64, Instant::now());
    let mut first = None;
    while start.elapsed() < Duration::from_secs(secs) {
        for wc in end.cq.poll(256).unwrap() {
            if wc.status == WcStatus::Success { done += 1; post(by[&wc.qpn]); } else { bad += 1; first.get_or_insert((wc, start.elapsed())); }
        }
        if last.elapsed() > Duration::from_secs(2) { last = Instant::now(); eprintln!("{:?}: {done} done, {bad} bad", start.elapsed()); }
    }
    eprintln!("done {done}, bad {bad}, first {first:?}");
}
