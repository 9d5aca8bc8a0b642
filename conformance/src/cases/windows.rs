//! Memory windows: binds, what a window gives and to whom, and how it is taken back.

use crate::case::{Case, Failure, Outcome, equal};
use crate::lab::{ALL_ACCESS, Buffer, End, Lab, Plan, Wr, recv};
use crate::verbs::{AsyncEventKind, Errno, Mw};
use ferroce_core::{AccessFlags, MwBind, MwType, QpState, SendFlags, SendOp, WcFlags, WcOpcode, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (mw_type, name) in TYPES {
        for use_ in Use::ALL {
            for (rights, granted) in
                [("its-right-alone", use_.needed()), ("every-other-right", RIGHTS - use_.needed())]
            {
                cases.push(Case::new(
                    format!("windows/{name}/{}/with-{rights}", use_.name()),
                    &["IBTA 10.6.7", "rdma-unit-test mw_test"],
                    move |lab| rights_of(lab, mw_type, use_, granted),
                ));
            }
            for (place, outside) in OUTSIDE {
                cases.push(Case::new(
                    format!("windows/{name}/{}/{place}", use_.name()),
                    &["IBTA 10.6.7", "linux-rdma 8ce17f2c2"],
                    move |lab| range_of(lab, mw_type, use_, outside),
                ));
            }
        }
        for (fault, rules, spoil) in BIND_FAULTS {
            cases.push(Case::new(format!("windows/{name}/bind-refused/{fault}"), rules, move |lab| {
                bind_fault(lab, mw_type, spoil)
            }));
        }
        for (key, rules, make) in KEYS {
            cases.push(Case::new(format!("windows/{name}/key/{key}"), rules, move |lab| {
                key_of(lab, mw_type, make)
            }));
        }
        cases.push(Case::new(
            format!("windows/{name}/region-in-use-is-not-deregistered"),
            &["IBTA 10.6.7.2.6", "ibv_dereg_mr(3)"],
            move |lab| region_in_use(lab, mw_type),
        ));
        cases.push(Case::new(
            format!("windows/{name}/through-another-qp"),
            &["IBTA 10.6.7", "rdma-unit-test mw_test"],
            move |lab| through_another_qp(lab, mw_type),
        ));
        cases.push(Case::new(
            format!("windows/{name}/of-another-pd"),
            &["IBTA 10.6.7", "linux-rdma c81b0ce53"],
            move |lab| of_another_pd(lab, mw_type),
        ));
        cases.push(Case::new(
            format!("windows/{name}/deallocated-while-bound"),
            &["ibv_alloc_mw(3)"],
            move |lab| deallocated(lab, mw_type),
        ));
    }
    for (fault, make) in INVALIDATE_FAULTS {
        cases.push(Case::new(
            format!("windows/local-invalidate/{fault}"),
            &["IBTA 10.6.7", "linux-rdma f962208aa"],
            move |lab| local_invalidate_fault(lab, make),
        ));
        cases.push(Case::new(
            format!("windows/send-with-invalidate/{fault}"),
            &["IBTA table 63", "rdma-unit-test rc_test"],
            move |lab| send_invalidate_fault(lab, make),
        ));
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("windows/{name}"), rules, body));
    }
}

const TYPES: [(MwType, &str); 2] = [(MwType::Type1, "type-1"), (MwType::Type2, "type-2")];

const RIGHTS: AccessFlags =
    AccessFlags::REMOTE_WRITE.union(AccessFlags::REMOTE_READ).union(AccessFlags::REMOTE_ATOMIC);

/// Rights of a region that peers reach through windows only.
const BINDABLE: AccessFlags = AccessFlags::LOCAL_WRITE.union(AccessFlags::MW_BIND);

/// Where in the region windows begin, and their bytes.
const START: u64 = 256;
const LENGTH: u64 = 64;

/// What a peer does with 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Write,
    Read,
    FetchAdd,
}

impl Use {
    const ALL: [Use; 3] = [Use::Write, Use::Read, Use::FetchAdd];

    fn name(self) -> &'static str {
        match self {
            Use::Write => "write",
            Use::Read => "read",
            Use::FetchAdd => "fetch-add",
        }
    }

    fn needed(self) -> AccessFlags {
        match self {
            Use::Write => AccessFlags::REMOTE_WRITE,
            Use::Read => AccessFlags::REMOTE_READ,
            Use::FetchAdd => AccessFlags::REMOTE_ATOMIC,
        }
    }

    fn wr(self, wr_id: u64, a: &End, va: u64, rkey: u32) -> Wr {
        let op = match self {
            Use::Write => SendOp::Write { va, rkey },
            Use::Read => SendOp::Read { va, rkey },
            Use::FetchAdd => SendOp::FetchAdd { va, rkey, add: 1 },
        };
        Wr::new(wr_id, op).sge(a.buffer.sge(0, 8))
    }
}

/// A pair whose B has a region for windows, and a window.
struct Stage {
    a: End,
    b: End,
    mw_type: MwType,
    region: Buffer,
    mw: Mw,
}

impl Stage {
    fn new(lab: &mut Lab, mw_type: MwType) -> Result<Stage, Failure> {
        let (a, b) = lab.pair(&Plan::rc())?;
        let region = lab.buffer(b.pd, 1024, BINDABLE)?;
        let mw = lab.fabric.alloc_mw(b.pd, mw_type)?;
        lab.write(&a.buffer, 0, &[0xff; 8]);
        Ok(Stage { a, b, mw_type, region, mw })
    }

    /// A stage whose window is bound; also its R_Key.
    fn bound(lab: &mut Lab, mw_type: MwType, access: AccessFlags) -> Result<(Stage, u32), Failure> {
        let stage = Stage::new(lab, mw_type)?;
        let b = stage.b;
        let rkey = stage.bind(lab, &b, 100, stage.info(access))?;
        equal("opcode", lab.sent(&b, 100)?.opcode, WcOpcode::BindMw)?;
        Ok((stage, rkey))
    }

    fn info(&self, access: AccessFlags) -> MwBind {
        MwBind { lkey: self.region.mr.lkey, addr: self.region.addr + START, length: LENGTH, access }
    }

    /// Posts a bind to the QP of `end`; the R_Key that it gives.
    fn bind(&self, lab: &mut Lab, end: &End, wr_id: u64, bind: MwBind) -> Result<u32, Failure> {
        if self.mw_type == MwType::Type1 {
            return Ok(lab.fabric.bind_mw(end.qp, self.mw, wr_id, SendFlags::SIGNALED, bind)?);
        }
        let rkey = self.mw.rkey ^ 0x5a;
        lab.post(end, Wr::new(wr_id, SendOp::BindMw { rkey, bind }))?;
        Ok(rkey)
    }

    /// Takes the window back.
    fn unbind(&self, lab: &mut Lab, wr_id: u64, rkey: u32) -> Outcome {
        match self.mw_type {
            MwType::Type1 => {
                self.bind(lab, &self.b, wr_id, MwBind::default())?;
            }
            MwType::Type2 => lab.post(&self.b, Wr::new(wr_id, SendOp::LocalInv { rkey }))?,
        }
        lab.sent(&self.b, wr_id)?;
        Ok(())
    }

    /// A uses 8 bytes at `va`, and is refused; nothing is changed, and B's QP fails with an event.
    fn refused(&self, lab: &mut Lab, use_: Use, va: u64, rkey: u32) -> Outcome {
        lab.post(&self.a, use_.wr(1, &self.a, va, rkey))?;
        lab.send_fails(&self.a, 1, WcStatus::RemAccessErr)?;
        lab.expect_bytes(&self.region, 0, &vec![0; self.region.len])?;
        lab.qp_event(&self.b, AsyncEventKind::QpAccessErr)?;
        equal("state of the responder", lab.state(&self.b)?, QpState::Err)
    }

    fn refused_at_start(&self, lab: &mut Lab, rkey: u32) -> Outcome {
        self.refused(lab, Use::Write, self.region.addr + START, rkey)
    }
}

fn rights_of(lab: &mut Lab, mw_type: MwType, use_: Use, granted: AccessFlags) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, mw_type, granted)?;
    let va = stage.region.addr + START + LENGTH - 8;
    if !granted.contains(use_.needed()) {
        return stage.refused(lab, use_, va, rkey);
    }
    lab.post(&stage.a, use_.wr(1, &stage.a, va, rkey))?;
    lab.sent(&stage.a, 1)?;
    let expected = match use_ {
        Use::Write => [0xff; 8],
        Use::Read => [0; 8],
        Use::FetchAdd => 1u64.to_ne_bytes(),
    };
    lab.expect_bytes(&stage.region, START + LENGTH - 8, &expected)?;
    if use_ == Use::Read {
        lab.expect_bytes(&stage.a.buffer, 0, &[0; 8])?;
    }
    Ok(())
}

type Outside = fn(u64) -> u64;

/// From where a window begins to 8 aligned bytes that are not all in it, though most are in its region.
const OUTSIDE: [(&str, Outside); 3] = [
    ("before-the-start", |start| start - 8),
    ("past-the-end", |start| start + LENGTH),
    ("at-the-top-of-the-address-space", |_| u64::MAX - 7),
];

fn range_of(lab: &mut Lab, mw_type: MwType, use_: Use, outside: Outside) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, mw_type, RIGHTS)?;
    stage.refused(lab, use_, outside(stage.region.addr + START), rkey)
}

type Spoil = fn(&mut Lab, &Stage, &mut MwBind) -> Outcome;

const BIND_FAULTS: [(&str, &[&str], Spoil); 9] = [
    ("region-of-another-pd", &["IBTA 10.6.7", "linux-rdma c81b0ce53"], |lab, stage, bind| {
        let pd = lab.fabric.alloc_pd(stage.b.at)?;
        bind.lkey = lab.buffer(pd, 1024, BINDABLE)?.mr.lkey;
        Ok(())
    }),
    ("region-without-mw-bind", &["IBTA 10.6.7"], |lab, stage, bind| {
        let plain = lab.buffer(stage.b.pd, 1024, ALL_ACCESS)?;
        (bind.lkey, bind.addr) = (plain.mr.lkey, plain.addr);
        Ok(())
    }),
    (
        "write-over-a-region-without-local-write",
        &["IBTA 10.6.7", "rdma-unit-test mw_test"],
        |lab, stage, bind| {
            let read_only = lab.buffer(stage.b.pd, 1024, AccessFlags::MW_BIND)?;
            (bind.lkey, bind.addr) = (read_only.mr.lkey, read_only.addr);
            Ok(())
        },
    ),
    ("unknown-l-key", &["IBTA 10.6.7", "rdma-unit-test mw_test"], |_, _, bind| {
        bind.lkey ^= 0x10;
        Ok(())
    }),
    ("deregistered-region", &["IBTA 10.6.7", "rdma-unit-test mw_test"], |lab, stage, _| {
        Ok(lab.fabric.dereg_mr(stage.region.mr)?)
    }),
    ("one-byte-before-the-region", &["IBTA 10.6.7", "linux-rdma 8ce17f2c2"], |_, stage, bind| {
        bind.addr = stage.region.addr - 1;
        Ok(())
    }),
    ("one-byte-past-the-region", &["IBTA 10.6.7", "linux-rdma 8ce17f2c2"], |_, stage, bind| {
        (bind.addr, bind.length) = (stage.region.addr + 1, 1024);
        Ok(())
    }),
    ("range-wraps-the-address-space", &["linux-rdma 8ce17f2c2"], |_, _, bind| {
        bind.length = u64::MAX - 7;
        Ok(())
    }),
    ("key-of-a-window-for-the-region", &["IBTA 10.6.7"], |_, stage, bind| {
        bind.lkey = stage.mw.rkey;
        Ok(())
    }),
];

/// The bind completes with an error, signaled or not, ends the queue, and gives no access.
fn bind_fault(lab: &mut Lab, mw_type: MwType, spoil: Spoil) -> Outcome {
    let stage = Stage::new(lab, mw_type)?;
    let mut bind = stage.info(RIGHTS);
    spoil(lab, &stage, &mut bind)?;
    let b = stage.b;
    stage.bind(lab, &b, 1, bind)?;
    lab.post(&b, Wr::send(2))?;
    lab.send_fails(&b, 1, WcStatus::MwBindErr)?;
    lab.send_fails(&b, 2, WcStatus::WrFlushErr)?;
    equal("state of the QP", lab.state(&b)?, QpState::Err)?;
    lab.no_completions(&stage.a)
}

type MakeKey = fn(&mut Lab, &Stage, u32) -> Result<u32, Failure>;

/// Keys of a bound window that lead nowhere.
const KEYS: [(&str, &[&str], MakeKey); 4] = [
    ("never-bound", &["IBTA 10.6.7", "rdma-unit-test mw_test"], |lab, stage, _| {
        Ok(lab.fabric.alloc_mw(stage.b.pd, stage.mw_type)?.rkey)
    }),
    ("wrong-key-byte", &["IBTA 10.6.7"], |_, _, rkey| Ok(rkey ^ 0x80)),
    ("taken-back", &["IBTA 10.6.7", "rdma-unit-test mw_test"], |lab, stage, rkey| {
        stage.unbind(lab, 7, rkey)?;
        Ok(rkey)
    }),
    ("of-the-bind-before", &["IBTA 10.6.7", "rdma-unit-test mw_test"], |lab, stage, rkey| {
        if stage.mw_type == MwType::Type2 {
            stage.unbind(lab, 7, rkey)?;
            // The consumer of a type 2 window says which key is next.
            let op = SendOp::BindMw { rkey: rkey ^ 1, bind: stage.info(RIGHTS) };
            lab.post(&stage.b, Wr::new(8, op))?;
        } else {
            stage.bind(lab, &stage.b, 8, stage.info(RIGHTS))?;
        }
        lab.sent(&stage.b, 8)?;
        Ok(rkey)
    }),
];

fn key_of(lab: &mut Lab, mw_type: MwType, make: MakeKey) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, mw_type, RIGHTS)?;
    let key = make(lab, &stage, rkey)?;
    stage.refused_at_start(lab, key)
}

fn region_in_use(lab: &mut Lab, mw_type: MwType) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, mw_type, RIGHTS)?;
    let refused = lab.fabric.dereg_mr(stage.region.mr).map_err(|refused| refused.errno);
    equal("dereg_mr", refused, Err(Errno::EBUSY))?;
    lab.post(&stage.a, Use::Read.wr(1, &stage.a, stage.region.addr + START, rkey))?;
    lab.sent(&stage.a, 1)?;
    stage.unbind(lab, 2, rkey)?;
    Ok(lab.fabric.dereg_mr(stage.region.mr)?)
}

/// One more QP of B's domain, in RTS, whose peer is A's.
fn second_qp(lab: &mut Lab, stage: &Stage) -> Result<End, Failure> {
    let (plan, b) = (Plan::rc(), stage.b);
    let second = lab.end_with(b.pd, b.buffer, [b.send_cq, b.recv_cq], &plan)?;
    lab.connect(&second, &plan, &stage.a, &plan)?;
    Ok(second)
}

/// Bound through one QP, used through another: a type 1 window belongs to all of its domain, a type 2 window to its QP.
fn through_another_qp(lab: &mut Lab, mw_type: MwType) -> Outcome {
    let stage = Stage::new(lab, mw_type)?;
    let second = second_qp(lab, &stage)?;
    let rkey = stage.bind(lab, &second, 2, stage.info(RIGHTS))?;
    lab.sent(&second, 2)?;
    if mw_type == MwType::Type2 {
        return stage.refused_at_start(lab, rkey);
    }
    lab.post(&stage.a, Use::Write.wr(1, &stage.a, stage.region.addr + START, rkey))?;
    lab.sent(&stage.a, 1)?;
    lab.expect_bytes(&stage.region, START, &[0xff; 8])
}

/// A QP cannot bind a window of another domain.
fn of_another_pd(lab: &mut Lab, mw_type: MwType) -> Outcome {
    let mut stage = Stage::new(lab, mw_type)?;
    let pd = lab.fabric.alloc_pd(stage.b.at)?;
    stage.mw = lab.fabric.alloc_mw(pd, mw_type)?;
    let b = stage.b;
    stage.bind(lab, &b, 1, stage.info(RIGHTS))?;
    lab.send_fails(&b, 1, WcStatus::MwBindErr)
}

fn deallocated(lab: &mut Lab, mw_type: MwType) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, mw_type, RIGHTS)?;
    lab.fabric.dealloc_mw(stage.mw)?;
    stage.refused_at_start(lab, rkey)?;
    Ok(lab.fabric.dereg_mr(stage.region.mr)?)
}

/// Keys that may not be invalidated.
const INVALIDATE_FAULTS: [(&str, MakeKey); 6] = [
    ("region", |_, stage, _| Ok(stage.region.mr.rkey)),
    ("type-1-window", |lab, stage, _| Ok(lab.fabric.alloc_mw(stage.b.pd, MwType::Type1)?.rkey)),
    ("window-that-is-not-bound", |lab, stage, _| Ok(lab.fabric.alloc_mw(stage.b.pd, MwType::Type2)?.rkey)),
    ("wrong-key-byte", |_, _, rkey| Ok(rkey ^ 0x80)),
    ("unknown", |_, _, rkey| Ok(rkey ^ 0x5555_5500)),
    ("of-another-pd", |lab, stage, _| {
        let pd = lab.fabric.alloc_pd(stage.b.at)?;
        Ok(lab.fabric.alloc_mw(pd, MwType::Type2)?.rkey)
    }),
];

fn local_invalidate_fault(lab: &mut Lab, make: MakeKey) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, MwType::Type2, RIGHTS)?;
    let key = make(lab, &stage, rkey)?;
    lab.post(&stage.b, Wr::new(5, SendOp::LocalInv { rkey: key }))?;
    lab.send_fails(&stage.b, 5, WcStatus::LocQpOpErr)?;
    equal("state of the QP", lab.state(&stage.b)?, QpState::Err)
}

/// Class J: the data is delivered and the sender has its success, but the receiver's work request and QP fail.
fn send_invalidate_fault(lab: &mut Lab, make: MakeKey) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, MwType::Type2, RIGHTS)?;
    let key = make(lab, &stage, rkey)?;
    lab.fabric.post_recv(stage.b.qp, vec![recv(4, &[stage.b.buffer.sge(0, 64)])])?;
    lab.post(&stage.a, Wr::new(1, SendOp::SendInv { rkey: key }).sge(stage.a.buffer.sge(0, 8)))?;
    lab.sent(&stage.a, 1)?;
    lab.recv_fails(&stage.b, 4, WcStatus::RemInvReqErr)?;
    lab.expect_bytes(&stage.b.buffer, 0, &[0xff; 8])?;
    equal("state of the responder", lab.state(&stage.b)?, QpState::Err)
}

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, &[&str], Body); 9] = [
    ("type-1/bound-again-and-unbound", &["ibv_bind_mw(3)"], bound_again),
    ("type-1/zero-based", &["IBTA 10.6.7"], |lab| zero_based(lab, MwType::Type1)),
    ("type-2/zero-based", &["IBTA 10.6.7", "rdma-unit-test mw_test"], |lab| zero_based(lab, MwType::Type2)),
    ("type-2/bound-while-bound", &["IBTA 10.6.7", "rdma-unit-test mw_test"], bound_while_bound),
    ("type-2/bind-of-no-bytes", &["IBTA 10.6.7"], bind_of_no_bytes),
    ("type-2/invalidated-by-the-peer", &["IBTA 10.6.7", "ibv_post_send(3)"], invalidated_by_the_peer),
    ("type-2/invalidated-through-another-qp", &["IBTA 10.6.7"], invalidated_through_another_qp),
    ("type-2/gone-with-its-qp", &["IBTA 10.6.7"], gone_with_its_qp),
    ("order/bind-then-send-then-use", &["IBTA 10.6.7", "rdma-unit-test mw_test"], bind_then_send),
];

fn bound_again(lab: &mut Lab) -> Outcome {
    let (stage, first) = Stage::bound(lab, MwType::Type1, AccessFlags::REMOTE_READ)?;
    let second = stage.bind(lab, &stage.b, 2, stage.info(AccessFlags::REMOTE_WRITE))?;
    lab.sent(&stage.b, 2)?;
    equal("number of the key", second >> 8, first >> 8)?;
    equal("the key byte changes", second == first, false)?;
    lab.post(&stage.a, Use::Write.wr(3, &stage.a, stage.region.addr + START, second))?;
    lab.sent(&stage.a, 3)?;
    lab.expect_bytes(&stage.region, START, &[0xff; 8])?;
    lab.write(&stage.region, START, &[0; 8]);
    let third = stage.bind(lab, &stage.b, 4, MwBind::default())?;
    lab.sent(&stage.b, 4)?;
    stage.refused_at_start(lab, third)
}

/// Addresses that count from 0 are for type 2 windows.
fn zero_based(lab: &mut Lab, mw_type: MwType) -> Outcome {
    let stage = Stage::new(lab, mw_type)?;
    let rkey = stage.bind(lab, &stage.b, 1, stage.info(RIGHTS | AccessFlags::ZERO_BASED))?;
    if mw_type == MwType::Type1 {
        return lab.send_fails(&stage.b, 1, WcStatus::MwBindErr);
    }
    lab.sent(&stage.b, 1)?;
    lab.post(&stage.a, Use::Write.wr(2, &stage.a, LENGTH - 8, rkey))?;
    lab.sent(&stage.a, 2)?;
    lab.expect_bytes(&stage.region, START + LENGTH - 8, &[0xff; 8])?;
    lab.write(&stage.region, START + LENGTH - 8, &[0; 8]);
    stage.refused_at_start(lab, rkey)
}

fn bound_while_bound(lab: &mut Lab) -> Outcome {
    let (stage, _) = Stage::bound(lab, MwType::Type2, RIGHTS)?;
    stage.bind(lab, &stage.b, 2, stage.info(RIGHTS))?;
    lab.send_fails(&stage.b, 2, WcStatus::MwBindErr)
}

fn bind_of_no_bytes(lab: &mut Lab) -> Outcome {
    let stage = Stage::new(lab, MwType::Type2)?;
    stage.bind(lab, &stage.b, 2, MwBind { length: 0, ..stage.info(RIGHTS) })?;
    lab.send_fails(&stage.b, 2, WcStatus::MwBindErr)
}

fn invalidated_by_the_peer(lab: &mut Lab) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, MwType::Type2, RIGHTS)?;
    lab.post_recv(&stage.b, 4, &[stage.b.buffer.sge(0, 64)])?;
    lab.post(&stage.a, Wr::new(2, SendOp::SendInv { rkey }).sge(stage.a.buffer.sge(0, 8)))?;
    lab.sent(&stage.a, 2)?;
    let wc = lab.received(&stage.b, 4)?;
    equal("flags and key", (wc.flags, wc.invalidated_rkey), (WcFlags::WITH_INV, rkey))?;
    // Free again for the next bind.
    let again = stage.bind(lab, &stage.b, 5, stage.info(RIGHTS))?;
    lab.sent(&stage.b, 5)?;
    stage.unbind(lab, 6, again)?;
    stage.refused_at_start(lab, rkey)
}

/// Type 2B, as cards have it: the protection domain decides.
fn invalidated_through_another_qp(lab: &mut Lab) -> Outcome {
    let (stage, rkey) = Stage::bound(lab, MwType::Type2, RIGHTS)?;
    let second = second_qp(lab, &stage)?;
    lab.post(&second, Wr::new(2, SendOp::LocalInv { rkey }))?;
    lab.sent(&second, 2)?;
    stage.refused_at_start(lab, rkey)
}

fn gone_with_its_qp(lab: &mut Lab) -> Outcome {
    let stage = Stage::new(lab, MwType::Type2)?;
    let second = second_qp(lab, &stage)?;
    let rkey = stage.bind(lab, &second, 2, stage.info(RIGHTS))?;
    lab.sent(&second, 2)?;
    lab.fabric.destroy_qp(second.qp)?;
    stage.refused_at_start(lab, rkey)?;
    Ok(lab.fabric.dereg_mr(stage.region.mr)?)
}

/// The SEND that tells the peer of a window leaves when the window is bound.
fn bind_then_send(lab: &mut Lab) -> Outcome {
    let stage = Stage::new(lab, MwType::Type2)?;
    lab.post_recv(&stage.a, 4, &[stage.a.buffer.sge(64, 64)])?;
    lab.post(&stage.b, Wr::read(1, &stage.a.buffer, 0).sge(stage.b.buffer.sge(0, 30_000)))?;
    let rkey = stage.bind(lab, &stage.b, 2, stage.info(RIGHTS))?;
    lab.post(&stage.b, Wr::send(3).inline(&rkey.to_be_bytes()))?;
    lab.received(&stage.a, 4)?;
    lab.post(&stage.a, Use::Write.wr(5, &stage.a, stage.region.addr + START, rkey))?;
    lab.sent(&stage.a, 5)?;
    for wr_id in 1..=3 {
        lab.sent(&stage.b, wr_id)?;
    }
    lab.expect_bytes(&stage.region, START, &[0xff; 8])
}
