//! Attributes out of their range: EINVAL, a reason, and a QP that is as before. And what each state takes.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::lab::{A, B, Lab, Plan, Wr, attr_of, recv};
use crate::needs::Need;
use crate::states::way_to_rts;
use crate::verbs::{AhAttr, Errno, Gid};
use ferroce_core::{PathMtu, QpAttr, QpAttrMask, QpState, QpType, WcStatus};
use ferroce_wire::{Psn, Qpn};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, state, change) in BAD_ATTRIBUTES {
        cases.push(Case::new(format!("attributes/bad/{name}"), RULES, move |lab| {
            bad(lab, state, |attr, _| change(attr))
        }));
    }
    for (name, change) in BAD_PATHS {
        cases.push(Case::new(format!("attributes/bad-path/{name}"), PATH_RULES, move |lab| {
            bad(lab, QpState::Rtr, |_, ah| change(ah))
        }));
    }
    for (name, state, change) in EXTREMES {
        cases.push(Case::new(format!("attributes/extreme/{name}"), RULES, move |lab| {
            good(lab, state, change)
        }));
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("attributes/{name}"), rules, body).needs([Need::VerbsLibrary]));
    }
}

const RULES: &[&str] = &["IBTA 10.3.1", "ibv_modify_qp(3)"];
const PATH_RULES: &[&str] = &["IBTA A17", "ibv_modify_qp(3)"];

type Change = fn(&mut QpAttr);

/// Values that no attribute may have, and the step that sets it.
const BAD_ATTRIBUTES: [(&str, QpState, Change); 9] = [
    ("pkey-index", QpState::Init, |attr| attr.pkey_index = 1),
    ("port-0", QpState::Init, |attr| attr.port_num = 0),
    ("port-2", QpState::Init, |attr| attr.port_num = 2),
    ("min-rnr-timer", QpState::Rtr, |attr| attr.min_rnr_timer = 32),
    ("max-dest-rd-atomic", QpState::Rtr, |attr| attr.max_dest_rd_atomic = 129),
    ("timeout", QpState::Rts, |attr| attr.timeout = 32),
    ("retry-cnt", QpState::Rts, |attr| attr.retry_cnt = 8),
    ("rnr-retry", QpState::Rts, |attr| attr.rnr_retry = 8),
    ("max-rd-atomic", QpState::Rts, |attr| attr.max_rd_atomic = 129),
];

type ChangePath = fn(&mut AhAttr);

/// Address vectors that lead nowhere.
const BAD_PATHS: [(&str, ChangePath); 5] = [
    ("no-global-route", |ah| ah.is_global = false),
    ("an-empty-gid-index", |ah| ah.sgid_index = 15),
    ("a-service-level-of-8", |ah| ah.sl = 8),
    ("port-2", |ah| ah.port_num = 2),
    ("another-ip-version", |ah| ah.dgid = Gid([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9])),
];

/// The largest and smallest values.
const EXTREMES: [(&str, QpState, Change); 10] = [
    ("min-rnr-timer-0", QpState::Rtr, |attr| attr.min_rnr_timer = 0),
    ("min-rnr-timer-31", QpState::Rtr, |attr| attr.min_rnr_timer = 31),
    ("max-dest-rd-atomic-0", QpState::Rtr, |attr| attr.max_dest_rd_atomic = 0),
    ("path-mtu-4096", QpState::Rtr, |attr| attr.path_mtu = PathMtu::Mtu4096),
    ("rq-psn-of-24-ones", QpState::Rtr, |attr| attr.rq_psn = Psn::new(0xff_ffff)),
    ("dest-qpn-of-24-bits", QpState::Rtr, |attr| attr.dest_qpn = Qpn::new(0xff_fffe)),
    ("timeout-31", QpState::Rts, |attr| attr.timeout = 31),
    ("retry-cnt-0", QpState::Rts, |attr| attr.retry_cnt = 0),
    ("rnr-retry-0", QpState::Rts, |attr| attr.rnr_retry = 0),
    ("max-rd-atomic-0", QpState::Rts, |attr| attr.max_rd_atomic = 0),
];

/// The step to `state` is refused for what `change` does to it, and succeeds without.
fn bad(lab: &mut Lab, state: QpState, change: impl Fn(&mut QpAttr, &mut AhAttr)) -> Outcome {
    let plan = Plan::rc();
    let (end, other) = (lab.end(A, &plan)?, lab.end(B, &plan)?);
    let peer = lab.peer(&end, &plan, &other, &plan)?;
    for (step, mask) in way_to_rts(QpType::Rc) {
        if step == state {
            let (mut attr, mut ah) = (attr_of(&plan, &peer), peer.ah);
            change(&mut attr, &mut ah);
            let before = lab.fabric.query_qp(end.qp)?;
            let attr = QpAttr { qp_state: state, ..attr };
            let result = lab.fabric.modify_qp(end.qp, &attr, Some(&ah), mask | QpAttrMask::STATE);
            let Err(refused) = result else { return Err(Failure::new("it was not refused")) };
            // A GID index with nothing behind it is ENODATA in some libraries (ibv_query_gid(3) knows it).
            ensure(
                matches!(refused.errno, Errno::EINVAL | Errno::ENODATA),
                format_args!("errno: {refused}"),
            )?;
            ensure(!refused.reason.is_empty(), "the refusal has no reason")?;
            equal("attributes after a refusal", lab.fabric.query_qp(end.qp)?, before)?;
        }
        lab.enter(&end, &plan, &peer, step)?;
    }
    Ok(())
}

fn good(lab: &mut Lab, state: QpState, change: Change) -> Outcome {
    let plan = Plan::rc();
    let (end, other) = (lab.end(A, &plan)?, lab.end(B, &plan)?);
    let peer = lab.peer(&end, &plan, &other, &plan)?;
    for (step, mask) in way_to_rts(QpType::Rc) {
        let mut attr = attr_of(&plan, &peer);
        if step == state {
            change(&mut attr);
        }
        let attr = QpAttr { qp_state: step, ..attr };
        lab.fabric.modify_qp(end.qp, &attr, Some(&peer.ah), mask | QpAttrMask::STATE)?;
        if step == state {
            let now = lab.fabric.query_qp(end.qp)?;
            let numbers = |attr: &QpAttr| {
                let times = (attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry);
                (attr.path_mtu, attr.dest_qpn, attr.max_rd_atomic, attr.max_dest_rd_atomic, times)
            };
            if step == QpState::Rts {
                equal("attributes", numbers(&now), numbers(&attr))?;
            }
            equal("the peer's PSN", now.rq_psn, attr.rq_psn)?;
        }
    }
    Ok(())
}

type Body = fn(&mut Lab) -> Outcome;

/// What may be posted in which state.
const ROWS: [(&str, &[&str], Body); 6] = [
    ("post/send-before-rts-is-refused", POST_RULES, sends_before_rts),
    ("post/receive-in-reset-is-refused", &["rdma-core, post_recv errors"], receive_in_reset),
    ("post/receive-in-init-is-kept", POST_RULES, receive_in_init),
    ("post/bad-wr-is-the-first-that-was-not-posted", &["rdma-core, post_recv errors"], bad_wr),
    ("post/too-many-elements", &["ibv_post_send(3)"], too_many_elements),
    ("post/lengths-that-pass-32-bits", &["rdma-core, inline lists"], lengths_past_32_bits),
];
const POST_RULES: &[&str] = &["IBTA 10.3.1", "ibv_post_send(3)"];

fn sends_before_rts(lab: &mut Lab) -> Outcome {
    let plan = Plan::rc();
    let (end, other) = (lab.end(A, &plan)?, lab.end(B, &plan)?);
    let peer = lab.peer(&end, &plan, &other, &plan)?;
    for next in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let refused = lab.fabric.post_send(end.qp, vec![Wr::send(1).into()]);
        let refused = refused.err().ok_or_else(|| Failure::new(format!("posted before {next}")))?;
        equal("errno", refused.refused.errno, Errno::EINVAL)?;
        lab.enter(&end, &plan, &peer, next)?;
    }
    lab.no_completions(&end)
}

fn receive_in_reset(lab: &mut Lab) -> Outcome {
    let end = lab.end(A, &Plan::rc())?;
    let refused = lab.fabric.post_recv(end.qp, vec![recv(1, &[])]);
    let refused = refused.err().ok_or_else(|| Failure::new("posted in RESET"))?;
    equal("refusal", (refused.index, refused.refused.errno), (0, Errno::EINVAL))
}

fn receive_in_init(lab: &mut Lab) -> Outcome {
    let plan = Plan::rc();
    let (a, b) = (lab.end(A, &plan)?, lab.end(B, &plan)?);
    let peer = lab.peer(&b, &plan, &a, &plan)?;
    lab.enter(&b, &plan, &peer, QpState::Init)?;
    lab.post_recv(&b, 7, &[b.buffer.sge(0, 100)])?;
    lab.enter(&b, &plan, &peer, QpState::Rtr)?;
    lab.connect(&a, &plan, &b, &plan)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 100)))?;
    lab.sent(&a, 1)?;
    lab.received(&b, 7)?;
    Ok(())
}

fn bad_wr(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let good = || recv(1, &[b.buffer.sge(0, 8)]);
    let list = vec![good(), good(), recv(3, &[b.buffer.sge(0, 1); 5]), good()];
    let refused =
        lab.fabric.post_recv(b.qp, list).err().ok_or_else(|| Failure::new("five elements posted"))?;
    equal("refusal of receives", (refused.index, refused.refused.errno), (2, Errno::EINVAL))?;
    let too_long = Wr::send(2).inline(&[0; 65]);
    let list = vec![Wr::send(1).sge(a.buffer.sge(0, 8)).into(), too_long.into(), Wr::send(3).into()];
    let refused =
        lab.fabric.post_send(a.qp, list).err().ok_or_else(|| Failure::new("65 bytes inline posted"))?;
    equal("refusal of sends", (refused.index, refused.refused.errno), (1, Errno::EINVAL))?;
    // What stood before them was posted, and what stood behind was not.
    lab.sent(&a, 1)?;
    lab.received(&b, 1)?;
    lab.no_completions(&a)
}

fn too_many_elements(lab: &mut Lab) -> Outcome {
    let (a, _) = lab.pair(&Plan::rc())?;
    let wr = (0..5).fold(Wr::send(1), |wr, _| wr.sge(a.buffer.sge(0, 1)));
    let refused = lab.fabric.post_send(a.qp, vec![wr.into()]);
    let refused = refused.err().ok_or_else(|| Failure::new("five elements posted"))?;
    equal("errno", refused.refused.errno, Errno::EINVAL)
}

fn lengths_past_32_bits(lab: &mut Lab) -> Outcome {
    let (a, _) = lab.pair(&Plan::rc())?;
    let wr = Wr::send(1).sge(a.buffer.sge(0, u32::MAX)).sge(a.buffer.sge(0, 3));
    // Either the post is refused, or the WR ends with a local error; never are two bytes sent.
    match lab.fabric.post_send(a.qp, vec![wr.into()]) {
        Err(refused) => equal("errno", refused.refused.errno, Errno::EINVAL),
        Ok(()) => {
            let wc = lab.wait_send(&a).within("posted")?;
            let local = matches!(wc.status, WcStatus::LocLenErr | WcStatus::LocProtErr);
            ensure(local, format_args!("it ended with {:?}", wc.status))
        }
    }
}
