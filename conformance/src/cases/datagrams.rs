//! UD: one packet to whomever the work request names, and from anybody who knows the Q_Key.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::fabric::{IpVersion, RawPacket};
use crate::lab::{A, B, End, Lab, Plan, Wr, pattern};
use crate::needs::Need;
use crate::verbs::{Ah, Errno, Gid};
use ferroce_core::{QpState, SendFlags, SendOp, Sge, WcFlags, WcOpcode, WcStatus};
use ferroce_wire::Qpn;
use std::net::IpAddr;

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for version in IpVersion::ALL {
        for (size, length) in SIZES {
            let name = format!("datagrams/{version}/{size}");
            let body = move |lab: &mut Lab| arrives(lab, version, length);
            cases.push(Case::new(name, &["IBTA 9.8.3", "IBTA A17"], body).needs([Need::Ud]));
        }
        for (name, body) in GROUPS {
            let name = format!("datagrams/{version}/group/{name}");
            let needs = [Need::Ud, version.group_need()];
            let body = move |lab: &mut Lab| body(lab, version);
            cases.push(Case::new(name, GROUP_RULES, body).needs(needs));
        }
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("datagrams/{name}"), rules, body).needs([Need::Ud]));
    }
    for (name, op) in FOREIGN {
        let name = format!("datagrams/loc-qp-op-err/{name}");
        let body = move |lab: &mut Lab| foreign(lab, op);
        let rules = &["IBTA 10.7.2.2", "linux-rdma 86d6290f3", "rdma-unit-test ud_test"];
        cases.push(Case::new(name, rules, body).needs([Need::Ud]));
    }
}

/// What stands in front of the payload in a receive buffer.
const GRH: u32 = 40;
const GROUP_RULES: &[&str] = &["IBTA 10.5.2", "linux-rdma b8b706ba2"];

/// Lengths; the port's MTU is at least 1024.
const SIZES: [(&str, u32); 5] =
    [("empty", 0), ("1-byte", 1), ("3-bytes", 3), ("1023-bytes", 1023), ("1024-bytes", 1024)];

/// A UD QP in RTS, and an address handle to the other endpoint.
fn pair(lab: &mut Lab, version: IpVersion) -> Result<(End, End, Ah), Failure> {
    let plan = Plan { version, ..Plan::ud() };
    let (a, b) = lab.pair(&plan)?;
    let to = lab.address(B, version)?;
    let ah = ah_to(lab, &a, to)?;
    Ok((a, b, ah))
}

fn ah_to(lab: &mut Lab, from: &End, to: IpAddr) -> Result<Ah, Failure> {
    let attr = lab.ah_attr(from.at, to)?;
    Ok(lab.fabric.create_ah(from.pd, &attr)?)
}

/// The Q_Key of a [`Plan`].
fn qkey() -> u32 {
    Plan::ud().qkey
}

fn arrives(lab: &mut Lab, version: IpVersion, length: u32) -> Outcome {
    let (a, b, ah) = pair(lab, version)?;
    let bytes = pattern(9, length as usize);
    lab.write(&a.buffer, 0, &bytes);
    let room = GRH + length;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, room)])?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, length)).to(ah, b.qpn, qkey()))?;
    equal("opcode", lab.sent(&a, 1)?.opcode, WcOpcode::Send)?;
    let wc = lab.received(&b, 2)?;
    equal("completion", (wc.opcode, wc.byte_len, wc.src_qp), (WcOpcode::Recv, room, a.qpn))?;
    ensure(wc.flags.contains(WcFlags::GRH), "the completion does not say that there is a GRH")?;
    lab.expect_bytes(&b.buffer, GRH.into(), &bytes)?;
    lab.expect_bytes(&b.buffer, room.into(), &[0; 64]).within("behind the datagram")?;
    header_names_ends(lab, &a, &b, version)
}

/// The 40 bytes hold the packet's IP header, an IPv4 one in their last 20.
fn header_names_ends(lab: &mut Lab, a: &End, b: &End, version: IpVersion) -> Outcome {
    let header = lab.read(&b.buffer, 0, GRH as usize);
    let ends = [lab.address(a.at, version)?, lab.address(b.at, version)?];
    let (own_version, place) = match version {
        IpVersion::V4 => (header[20] >> 4, 32),
        IpVersion::V6 => (header[0] >> 4, 8),
    };
    equal("IP version in the header", own_version, if version == IpVersion::V4 { 4 } else { 6 })?;
    let addresses: Vec<u8> = ends
        .into_iter()
        .flat_map(|end| match end {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        })
        .collect();
    equal("addresses in the header", &header[place..], &addresses[..])
}

type GroupBody = fn(&mut Lab, IpVersion) -> Outcome;

const GROUPS: [(&str, GroupBody); 3] = [
    ("reaches-all-members-and-nobody-else", |lab, version| {
        let plan = Plan { version, ..Plan::ud() };
        let (a, b) = lab.pair(&plan)?;
        let c = lab.end(B, &plan)?;
        lab.connect(&c, &plan, &a, &plan)?;
        let d = lab.end(B, &plan)?;
        lab.connect(&d, &plan, &a, &plan)?;
        let group = Gid::from_ip(RawPacket::group(version));
        for member in [&b, &c] {
            lab.fabric.attach_mcast(member.qp, group)?;
        }
        for end in [&b, &c, &d] {
            lab.post_recv(end, 5, &[end.buffer.sge(0, 100)])?;
        }
        let ah = ah_to(lab, &a, RawPacket::group(version))?;
        lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to(ah, Qpn::MULTICAST, qkey()))?;
        lab.sent(&a, 1)?;
        for member in [&b, &c] {
            let wc = lab.received(member, 5)?;
            // rxe named the multicast QPN as the receiver's.
            equal("QPNs of the completion", (wc.qpn, wc.src_qp), (member.qpn, a.qpn))?;
        }
        lab.no_completions(&d)
    }),
    ("after-detaching-nothing-comes", |lab, version| {
        let (a, b, _) = pair(lab, version)?;
        let group = Gid::from_ip(RawPacket::group(version));
        lab.fabric.attach_mcast(b.qp, group)?;
        lab.fabric.detach_mcast(b.qp, group)?;
        lab.post_recv(&b, 5, &[b.buffer.sge(0, 100)])?;
        let ah = ah_to(lab, &a, RawPacket::group(version))?;
        lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to(ah, Qpn::MULTICAST, qkey()))?;
        lab.sent(&a, 1)?;
        lab.no_completions(&b)
    }),
    ("only-groups-can-be-joined-and-only-by-ud-qps", |lab, version| {
        let (_, b, _) = pair(lab, version)?;
        let single = Gid::from_ip(lab.address(A, version)?);
        let refused = lab.fabric.attach_mcast(b.qp, single).err();
        equal("errno for a single host", refused.map(|refused| refused.errno), Some(Errno::EINVAL))?;
        let group = Gid::from_ip(RawPacket::group(version));
        let refused = lab.fabric.detach_mcast(b.qp, group).err();
        equal("errno for a group it is not in", refused.map(|refused| refused.errno), Some(Errno::EINVAL))?;
        let rc = lab.end(B, &Plan::rc())?;
        let refused = lab.fabric.attach_mcast(rc.qp, group).err();
        equal("errno for an RC QP", refused.map(|refused| refused.errno), Some(Errno::EINVAL))
    }),
];

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, &[&str], Body); 10] = [
    ("immediate-and-solicited", &["IBTA 9.8.3", "IBTA 9.3"], immediate),
    ("gathered-and-scattered", &["IBTA 10.7.3"], lists),
    ("one-qp-sends-to-many", &["IBTA 9.8.3"], to_many),
    ("the-completion-is-enough-to-answer", &["IBTA 9.8.3"], answer),
    ("larger-than-the-mtu", &["IBTA C10-93.1.1", "rdma-unit-test ud_test"], larger_than_mtu),
    ("larger-than-its-buffer", &["IBTA 9.8.3", "linux-rdma 737696b71"], larger_than_buffer),
    ("without-a-receive", &["IBTA 9.8.3"], without_receive),
    ("with-another-qkey", &["IBTA 10.2.5"], other_qkey),
    ("address-handle-of-another-pd", &["rdma-unit-test ud_test"], foreign_ah),
    ("a-failed-send-leaves-receiving-alone", &["IBTA 10.3.1", "IBTA 10.7.2.2"], sqe_receives),
];

fn immediate(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    lab.fabric.req_notify_cq(b.recv_cq, true)?;
    for (id, flags) in [(1, SendFlags::empty()), (2, SendFlags::SOLICITED)] {
        lab.post_recv(&b, id, &[b.buffer.sge(0, 100)])?;
        let wr = Wr::new(id, SendOp::SendImm { imm: [9, 8, 7, 6] }).sge(a.buffer.sge(0, 4));
        lab.post(&a, wr.flags(flags).to(ah, b.qpn, qkey()))?;
        lab.sent(&a, id)?;
        lab.settle();
        equal("event", lab.fabric.take_cq_event(b.recv_cq), flags == SendFlags::SOLICITED)?;
        let wc = lab.received(&b, id)?;
        ensure(wc.flags.contains(WcFlags::WITH_IMM), "no immediate data")?;
        equal("immediate data", (wc.imm, wc.byte_len), ([9, 8, 7, 6], GRH + 4))?;
    }
    Ok(())
}

fn lists(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    lab.write(&a.buffer, 0, &pattern(1, 100));
    // The first element holds the header and 10 bytes.
    let target: [Sge; 3] = [b.buffer.sge(0, GRH + 10), b.buffer.sge(1000, 0), b.buffer.sge(2000, 90)];
    lab.post_recv(&b, 2, &target)?;
    let wr = Wr::send(1).sge(a.buffer.sge(0, 33)).sge(a.buffer.sge(33, 67));
    lab.post(&a, wr.to(ah, b.qpn, qkey()))?;
    equal("length", lab.received(&b, 2)?.byte_len, GRH + 100)?;
    lab.expect_bytes(&b.buffer, GRH.into(), &pattern(1, 100)[..10])?;
    lab.expect_bytes(&b.buffer, 2000, &pattern(1, 100)[10..])
}

fn to_many(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    let plan = Plan::ud();
    let c = lab.end(B, &plan)?;
    lab.connect(&c, &plan, &a, &plan)?;
    for (id, to) in [(1, &b), (2, &c), (3, &b)] {
        lab.post_recv(to, id, &[to.buffer.sge(0, 100)])?;
        lab.post(&a, Wr::send(id).sge(a.buffer.sge(0, 8)).to(ah, to.qpn, qkey()))?;
        lab.sent(&a, id)?;
        lab.received(to, id)?;
    }
    lab.no_completions(&b)?;
    lab.no_completions(&c)
}

fn answer(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    lab.post_recv(&b, 1, &[b.buffer.sge(0, 100)])?;
    lab.post_recv(&a, 2, &[a.buffer.sge(0, 100)])?;
    lab.post(&a, Wr::send(3).sge(a.buffer.sge(200, 8)).to(ah, b.qpn, qkey()))?;
    let wc = lab.received(&b, 1)?;
    // The sender's address is in the header, its QPN in the completion.
    let header = lab.read(&b.buffer, 32, 4);
    let back = ah_to(lab, &b, IpAddr::from([header[0], header[1], header[2], header[3]]))?;
    lab.post(&b, Wr::send(4).sge(b.buffer.sge(200, 16)).to(back, wc.src_qp, qkey()))?;
    equal("length", lab.received(&a, 2)?.byte_len, GRH + 16)
}

/// Cards fail such a request; rxe says nothing and sends nothing.
fn larger_than_mtu(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    let length = lab.fabric.active_mtu(a.at).bytes() + 1;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, GRH + length)])?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, length)).to(ah, b.qpn, qkey()))?;
    let wc = lab.wait_send(&a)?;
    let known = matches!(wc.status, WcStatus::LocLenErr | WcStatus::Success);
    ensure(known, format_args!("it ended with {:?}", wc.status))?;
    lab.no_completions(&b)
}

fn larger_than_buffer(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, GRH + 10)])?;
    for (id, length) in [(1, 11), (2, 10)] {
        lab.post(&a, Wr::send(id).sge(a.buffer.sge(0, length)).to(ah, b.qpn, qkey()))?;
        lab.sent(&a, id)?;
    }
    equal("length", lab.received(&b, 2)?.byte_len, GRH + 10)?;
    equal("state of the receiver", lab.state(&b)?, QpState::Rts)?;
    lab.no_completions(&b)
}

fn without_receive(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to(ah, b.qpn, qkey()))?;
    lab.sent(&a, 1)?;
    lab.settle();
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 100)])?;
    lab.no_completions(&b)?;
    lab.post(&a, Wr::send(3).sge(a.buffer.sge(0, 16)).to(ah, b.qpn, qkey()))?;
    equal("length", lab.received(&b, 2)?.byte_len, GRH + 16)
}

fn other_qkey(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 100)])?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to(ah, b.qpn, qkey() ^ 1))?;
    lab.sent(&a, 1)?;
    lab.no_completions(&b)?;
    lab.post(&a, Wr::send(3).sge(a.buffer.sge(0, 16)).to(ah, b.qpn, qkey()))?;
    equal("length", lab.received(&b, 2)?.byte_len, GRH + 16)
}

fn foreign_ah(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab, IpVersion::V4)?;
    let pd = lab.fabric.alloc_pd(A)?;
    let to = lab.address(B, IpVersion::V4)?;
    let attr = lab.ah_attr(A, to)?;
    let ah = lab.fabric.create_ah(pd, &attr)?;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 100)])?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to(ah, b.qpn, qkey()))?;
    lab.send_fails(&a, 1, WcStatus::LocQpOpErr)?;
    lab.no_completions(&b)
}

/// A send that fails takes the QP to SQE: sends are flushed, receives go on, and RTS is one modify away.
fn sqe_receives(lab: &mut Lab) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    let bad = Sge { lkey: a.buffer.mr.lkey ^ 1, ..a.buffer.sge(0, 8) };
    lab.post(&a, Wr::send(1).sge(bad).to(ah, b.qpn, qkey()))?;
    lab.post(&a, Wr::send(2).sge(a.buffer.sge(0, 8)).to(ah, b.qpn, qkey()))?;
    lab.send_fails(&a, 1, WcStatus::LocProtErr)?;
    lab.send_fails(&a, 2, WcStatus::WrFlushErr)?;
    lab.wait_state(&a, QpState::Sqe)?;
    lab.post_recv(&a, 3, &[a.buffer.sge(0, 100)])?;
    let to = lab.address(A, IpVersion::V4)?;
    let back = ah_to(lab, &b, to)?;
    lab.post(&b, Wr::send(4).sge(b.buffer.sge(0, 8)).to(back, a.qpn, qkey()))?;
    lab.received(&a, 3).within("in SQE")?;
    lab.to_state(&a, QpState::Rts)?;
    lab.post_recv(&b, 5, &[b.buffer.sge(0, 100)])?;
    lab.post(&a, Wr::send(6).sge(a.buffer.sge(0, 8)).to(ah, b.qpn, qkey()))?;
    lab.sent(&a, 6)?;
    lab.received(&b, 5).within("back in RTS").map(|_| ())
}

type MakeOp = fn(&End) -> SendOp;

/// What only connections can do.
const FOREIGN: [(&str, MakeOp); 5] = [
    ("write", |b| SendOp::Write { va: b.buffer.addr, rkey: b.buffer.mr.rkey }),
    ("read", |b| SendOp::Read { va: b.buffer.addr, rkey: b.buffer.mr.rkey }),
    ("fetch-add", |b| SendOp::FetchAdd { va: b.buffer.addr, rkey: b.buffer.mr.rkey, add: 1 }),
    ("compare-swap", |b| {
        let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey);
        SendOp::CompareSwap { va, rkey, compare: 0, swap: 1 }
    }),
    ("send-with-invalidate", |b| SendOp::SendInv { rkey: b.buffer.mr.rkey }),
];

/// Refused when it is posted, or completed in error; never silence, and nothing happens at the peer.
fn foreign(lab: &mut Lab, op: MakeOp) -> Outcome {
    let (a, b, ah) = pair(lab, IpVersion::V4)?;
    let wr = Wr::new(1, op(&b)).sge(a.buffer.sge(0, 8)).to(ah, b.qpn, qkey());
    match lab.fabric.post_send(a.qp, vec![wr.into()]) {
        Err(refused) => equal("errno", refused.refused.errno, Errno::EINVAL)?,
        Ok(()) => lab.send_fails(&a, 1, WcStatus::LocQpOpErr)?,
    }
    lab.no_completions(&b)?;
    lab.expect_bytes(&b.buffer, 0, &[0; 8])
}
