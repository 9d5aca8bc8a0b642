//! Objects that others use, queues that are full, and limits.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::fabric::IpVersion;
use crate::lab::{A, ALL_ACCESS, B, Lab, Plan, Wr, recv};
use crate::needs::Need;
use crate::verbs::{Errno, Gid, MrSpec, PostRefused, QpSpec, Refused};
use ferroce_core::{AccessFlags, QpCaps, QpType};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, rules, body) in LIBRARY_ROWS {
        cases.push(Case::new(format!("objects/{name}"), rules, body).needs([Need::VerbsLibrary]));
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("objects/{name}"), rules, body));
    }
    for (name, change) in TOO_LARGE {
        let body = move |lab: &mut Lab| too_large(lab, change);
        let name = format!("objects/limits/{name}");
        cases.push(Case::new(name, &["ibv_create_qp(3)"], body).needs([Need::VerbsLibrary]));
    }
}

type Body = fn(&mut Lab) -> Outcome;

const LIBRARY_ROWS: [(&str, &[&str], Body); 8] = [
    ("busy/pd-with-a-region", &["ibv_alloc_pd(3)"], pd_with_a_region),
    ("busy/pd-with-a-qp", &["ibv_alloc_pd(3)"], pd_with_a_qp),
    ("busy/cq-with-a-qp", &["ibv_create_cq(3)"], cq_with_a_qp),
    ("full/send-queue", FULL_RULES, full_send_queue),
    ("full/send-queue-has-room-when-polled", FULL_RULES, send_queue_has_room),
    ("full/unsignaled-sends-keep-their-room", FULL_RULES, unsignaled_keep_room),
    ("full/receive-queue", &["ibv_post_recv(3)"], full_receive_queue),
    ("limits/cq-of-nothing", &["ibv_create_cq(3)"], cq_of_nothing),
];
const FULL_RULES: &[&str] = &["ibv_post_send(3)", "rdma-unit-test qp_test"];

const ROWS: [(&str, &[&str], Body); 6] = [
    ("regions/remote-rights-need-local-write", &["ibv_reg_mr(3)"], remote_needs_local),
    ("regions/many-have-keys-of-their-own", &["linux-rdma 4c80434aa"], keys_differ),
    ("regions/over-the-same-memory", &["ibv_reg_mr(3)"], same_memory),
    ("gids/both-versions-of-ip", &["ibv_query_gid(3)"], gids_of_both),
    ("gids/an-empty-one-is-zero", &["ibv_query_gid(3)"], empty_gid),
    ("gids/none-beyond-the-table", &["ibv_query_gid(3)"], no_gid_beyond),
];

fn busy(result: Result<(), Refused>, what: &str) -> Outcome {
    let refused = result.err().ok_or_else(|| Failure::new(format!("{what} went away")))?;
    equal("errno", refused.errno, Errno::EBUSY)?;
    ensure(!refused.reason.is_empty(), "the refusal has no reason")
}

fn pd_with_a_region(lab: &mut Lab) -> Outcome {
    let pd = lab.fabric.alloc_pd(A)?;
    let buffer = lab.buffer(pd, 64, ALL_ACCESS)?;
    busy(lab.fabric.dealloc_pd(pd), "the PD")?;
    lab.fabric.dereg_mr(buffer.mr)?;
    lab.fabric.dealloc_pd(pd).within("without its region")
}

fn pd_with_a_qp(lab: &mut Lab) -> Outcome {
    let end = lab.end(A, &Plan::rc())?;
    lab.fabric.dereg_mr(end.buffer.mr)?;
    busy(lab.fabric.dealloc_pd(end.pd), "the PD")?;
    lab.fabric.destroy_qp(end.qp)?;
    lab.fabric.dealloc_pd(end.pd).within("without its QP")
}

fn cq_with_a_qp(lab: &mut Lab) -> Outcome {
    let end = lab.end(A, &Plan::rc())?;
    for cq in [end.send_cq, end.recv_cq] {
        busy(lab.fabric.destroy_cq(cq), "the CQ")?;
    }
    lab.fabric.destroy_qp(end.qp)?;
    for cq in [end.send_cq, end.recv_cq] {
        lab.fabric.destroy_cq(cq).within("without its QP")?;
    }
    Ok(())
}

/// Work requests of a send queue of its own.
const DEPTH: u32 = 8;

fn shallow() -> Plan {
    let caps = QpCaps { max_send_wr: DEPTH, max_recv_wr: DEPTH, ..Plan::rc().caps };
    Plan { caps, ..Plan::rc() }
}

fn no_room(result: Result<(), PostRefused>, index: u32) -> Outcome {
    let refused = result.err().ok_or_else(|| Failure::new("all were posted"))?;
    equal("refusal", (refused.index, refused.refused.errno), (index as usize, Errno::ENOMEM))
}

/// SENDs that nobody has a receive for, more than fit: the first that does not is named, and the others are sent.
fn full_send_queue(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&shallow())?;
    let send = |id: u64| Wr::send(id).sge(a.buffer.sge(0, 8)).into();
    no_room(lab.fabric.post_send(a.qp, (0..u64::from(DEPTH) + 3).map(send).collect()), DEPTH)?;
    for id in 0..u64::from(DEPTH) {
        lab.post_recv(&b, id, &[b.buffer.sge(0, 64)])?;
    }
    for id in 0..u64::from(DEPTH) {
        lab.sent(&a, id)?;
        lab.received(&b, id)?;
    }
    lab.no_completions(&a)
}

fn send_queue_has_room(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&shallow())?;
    let write = |id: u64| Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8));
    for id in 0..u64::from(DEPTH) {
        lab.post(&a, write(id))?;
    }
    lab.settle();
    // They are done, but nobody has taken their completions.
    no_room(lab.fabric.post_send(a.qp, vec![write(99).into()]), 0)?;
    lab.sent(&a, 0)?;
    lab.post(&a, write(100)).within("with one completion taken")?;
    for id in (1..u64::from(DEPTH)).chain([100]) {
        lab.sent(&a, id)?;
    }
    Ok(())
}

/// The room of a work request without a completion comes back with the next completion.
fn unsignaled_keep_room(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&shallow())?;
    let write = |id: u64| Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8));
    for round in 0..5 {
        for id in 0..u64::from(DEPTH) - 1 {
            lab.post(&a, write(id).unsignaled()).within(format_args!("round {round}"))?;
        }
        lab.post(&a, write(round))?;
        lab.sent(&a, round)?;
    }
    lab.no_completions(&a)
}

fn full_receive_queue(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&shallow())?;
    let list = (0..u64::from(DEPTH) + 1).map(|id| recv(id, &[b.buffer.sge(0, 64)])).collect();
    no_room(lab.fabric.post_recv(b.qp, list), DEPTH)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&a, 1)?;
    lab.received(&b, 0)?;
    lab.post_recv(&b, 100, &[b.buffer.sge(0, 64)]).within("with one taken")
}

fn cq_of_nothing(lab: &mut Lab) -> Outcome {
    let refused = lab.fabric.create_cq(A, 0).err().ok_or_else(|| Failure::new("a CQ without entries"))?;
    equal("errno", refused.errno, Errno::EINVAL)?;
    let max = lab.fabric.query_device(A).max_cqe;
    let more = max.checked_add(1).ok_or_else(|| Failure::new("there is no limit"))?;
    let refused =
        lab.fabric.create_cq(A, more).err().ok_or_else(|| Failure::new("larger than the device's"))?;
    equal("errno", refused.errno, Errno::EINVAL)?;
    lab.fabric.create_cq(A, max).map(|_| ()).within("as large as the device allows")
}

type Enlarge = fn(&mut QpCaps, u32, u32);

/// Capabilities beyond the device's, which has these limits of work requests and elements.
const TOO_LARGE: [(&str, Enlarge); 5] = [
    ("max-send-wr", |caps, wr, _| caps.max_send_wr = wr + 1),
    ("max-recv-wr", |caps, wr, _| caps.max_recv_wr = wr + 1),
    ("max-send-sge", |caps, _, sge| caps.max_send_sge = sge + 1),
    ("max-recv-sge", |caps, _, sge| caps.max_recv_sge = sge + 1),
    ("max-inline-data", |caps, _, _| caps.max_inline_data = u32::MAX),
];

fn too_large(lab: &mut Lab, change: Enlarge) -> Outcome {
    let limits = lab.fabric.query_device(A);
    let pd = lab.fabric.alloc_pd(A)?;
    let cq = lab.fabric.create_cq(A, 16)?;
    let mut caps = Plan::rc().caps;
    change(&mut caps, limits.max_qp_wr, limits.max_sge);
    let spec = QpSpec { qp_type: QpType::Rc, send_cq: cq, recv_cq: cq, srq: None, caps, sq_sig_all: false };
    let refused = lab.fabric.create_qp(pd, &spec).err().ok_or_else(|| Failure::new("the QP was made"))?;
    equal("errno", refused.errno, Errno::EINVAL)?;
    // Nothing of it is left.
    lab.fabric.destroy_cq(cq)?;
    lab.fabric.dealloc_pd(pd).within("afterwards")
}

fn remote_needs_local(lab: &mut Lab) -> Outcome {
    let pd = lab.fabric.alloc_pd(A)?;
    let addr = lab.fabric.alloc(A, 64);
    for access in [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC] {
        let spec = MrSpec { addr, length: 64, iova: addr, access };
        let refused = lab.fabric.reg_mr(pd, &spec).err();
        let refused = refused.ok_or_else(|| Failure::new(format!("registered with {access:?} alone")))?;
        equal("errno", refused.errno, Errno::EINVAL)?;
    }
    let spec = MrSpec { addr, length: 64, iova: addr, access: AccessFlags::REMOTE_READ };
    lab.fabric.reg_mr(pd, &spec).map(|_| ()).within("REMOTE_READ alone")
}

fn keys_differ(lab: &mut Lab) -> Outcome {
    const REGIONS: usize = 500;
    let (a, b) = lab.pair(&Plan::rc())?;
    let spec = MrSpec { addr: b.buffer.addr, length: 64, iova: b.buffer.addr, access: ALL_ACCESS };
    let mut keys = Vec::new();
    for _ in 0..REGIONS {
        let mr = lab.fabric.reg_mr(b.pd, &spec)?;
        keys.extend([mr.lkey, mr.rkey]);
    }
    let last = keys[keys.len() - 1];
    lab.post(
        &a,
        Wr::new(1, ferroce_core::SendOp::Write { va: b.buffer.addr, rkey: last }).sge(a.buffer.sge(0, 8)),
    )?;
    lab.sent(&a, 1)?;
    // A region's two keys may be one number; those of different regions may not.
    keys.sort_unstable();
    keys.dedup();
    ensure(keys.len() >= REGIONS, format_args!("{} different keys", keys.len()))
}

fn same_memory(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let read_only =
        MrSpec { addr: b.buffer.addr, length: 64, iova: b.buffer.addr, access: AccessFlags::REMOTE_READ };
    let mr = lab.fabric.reg_mr(b.pd, &read_only)?;
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&a, 1)?;
    let op = ferroce_core::SendOp::Read { va: b.buffer.addr, rkey: mr.rkey };
    lab.post(&a, Wr::new(2, op).sge(a.buffer.sge(64, 8)))?;
    lab.sent(&a, 2)?;
    lab.fabric.dereg_mr(mr)?;
    lab.post(&a, Wr::write(3, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&a, 3).within("when the other region is gone").map(|_| ())
}

fn gids_of_both(lab: &mut Lab) -> Outcome {
    for at in [A, B] {
        for version in IpVersion::ALL {
            let (_, gid) = lab.gid(at, version)?;
            let mapped = gid.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
            equal("whether the GID is an IPv4-mapped address", mapped, version == IpVersion::V4)?;
        }
    }
    Ok(())
}

fn empty_gid(lab: &mut Lab) -> Outcome {
    match lab.fabric.query_gid(A, 15) {
        Ok(gid) => equal("GID", gid, Gid::default()),
        Err(refused) => equal("errno", refused.errno, Errno::ENODATA),
    }
}

fn no_gid_beyond(lab: &mut Lab) -> Outcome {
    match lab.fabric.query_gid(A, u32::MAX) {
        Ok(gid) => equal("GID", gid, Gid::default()),
        Err(refused) => {
            let known = matches!(refused.errno, Errno::EINVAL | Errno::ENODATA);
            ensure(known, format_args!("errno: {refused}"))
        }
    }
}
