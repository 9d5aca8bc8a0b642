//! The steps of a script, one for each line.

use super::number::{Key, Place, Run, parse_time};
use super::packet::{Faults, Packet, parse_after};
use super::words::{Reason, Words};
use crate::verbs::AsyncEventKind;
use ferroce_core::{AccessFlags, Flush, FlushPlacement, QpState, SendFlags, SendOp, WcOpcode, WcStatus};
use ferroce_wire::Service;

/// A step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// `< PACKET`: the peer sends.
    Inject(Box<(Packet, Faults)>),
    /// `> PACKET`: the peer receives, not before so many nanoseconds after the last one that it sent.
    Expect(Box<Packet>, Option<u64>),
    /// `quiet`, `quiet TIME`: nothing is on its way, and nothing comes, where time is virtual for so long.
    Quiet(u64),
    /// `pass TIME`: so much virtual time goes by.
    Pass(u64),
    /// `recv ID [at=PLACE len=N]`.
    Recv { qp: usize, wr_id: u64, list: Option<List> },
    /// `send ID OPERATION …`.
    Send(Box<Send>),
    /// `wc send|recv ID STATUS …`.
    Completion(Box<Completion>),
    /// `event KIND`.
    Event { qp: usize, kind: AsyncEventKind },
    /// `state STATE`.
    State { qp: usize, state: QpState },
    /// `modify STATE`.
    Modify { qp: usize, state: QpState },
    /// `access RIGHTS`: what the peer may do from now on.
    Access { qp: usize, access: AccessFlags },
    /// `fill PLACE data=RUN`, `fill PLACE word=N`: writes to the buffer.
    Fill(Place, Content),
    /// `memory PLACE data=RUN`, …: looks at the buffer.
    Memory(Place, Content),
    /// `dereg`: deregisters the buffer.
    Dereg,
    /// `attach`, `detach`: the multicast group.
    Group { qp: usize, attach: bool },
}

/// A list of one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct List {
    pub(super) place: Place,
    pub(super) len: u32,
    /// Whether its key is the buffer's.
    pub(super) key: Key,
}

/// A send work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Send {
    pub(super) qp: usize,
    pub(super) wr_id: u64,
    pub(super) op: SendOp,
    pub(super) list: Option<List>,
    pub(super) flags: SendFlags,
    /// The Q_Key of a datagram.
    pub(super) qkey: Option<u32>,
}

/// A completion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Completion {
    pub(super) qp: usize,
    pub(super) is_send: bool,
    pub(super) wr_id: u64,
    pub(super) status: WcStatus,
    pub(super) opcode: Option<WcOpcode>,
    pub(super) len: Option<u32>,
    pub(super) imm: Option<u32>,
    /// Whether it came with a GRH from the peer.
    pub(super) from_peer: bool,
}

/// What is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// Bytes of the sequence.
    Data(Run),
    /// So many zero bytes.
    Zero(usize),
    /// A word in host order.
    Word(u64),
    /// The IP header that stands in front of a datagram from the peer (40 bytes).
    Header,
}

impl Step {
    pub(super) fn parse(line: &str, service: Service) -> Result<Step, Reason> {
        let mut words = Words::new(line);
        let step = match words.next("a command")? {
            "<" => {
                let packet = Packet::parse(&mut words, service)?;
                Step::Inject(Box::new((packet, Faults::parse(&mut words)?)))
            }
            ">" => {
                let packet = Packet::parse(&mut words, service)?;
                Step::Expect(Box::new(packet), parse_after(&mut words)?)
            }
            "quiet" => Step::Quiet(words.next("a time").map_or(Ok(SILENCE_NS), parse_time)?),
            "pass" => Step::Pass(parse_time(words.next("a time")?)?),
            "recv" => Step::Recv {
                qp: qp(&mut words)?,
                wr_id: words.next_number("a number")?,
                list: List::parse(&mut words)?,
            },
            "send" => Step::Send(Box::new(Send::parse(&mut words)?)),
            "wc" => Step::Completion(Box::new(Completion::parse(&mut words)?)),
            "event" => Step::Event { qp: qp(&mut words)?, kind: parse_event(words.next("an event")?)? },
            "state" => Step::State { qp: qp(&mut words)?, state: parse_state(words.next("a state")?)? },
            "modify" => Step::Modify { qp: qp(&mut words)?, state: parse_state(words.next("a state")?)? },
            "access" => Step::Access { qp: qp(&mut words)?, access: parse_access(words.next("rights")?)? },
            "fill" => Step::Fill(Place::parse(words.next("a place")?)?, Content::parse(&mut words)?),
            "memory" => Step::Memory(Place::parse(words.next("a place")?)?, Content::parse(&mut words)?),
            "dereg" => Step::Dereg,
            "attach" => Step::Group { qp: qp(&mut words)?, attach: true },
            "detach" => Step::Group { qp: qp(&mut words)?, attach: false },
            other => return Err(format!("{other} is no command")),
        };
        words.end()?;
        Ok(step)
    }
}

fn qp(words: &mut Words<'_>) -> Result<usize, Reason> {
    Ok(words.number("qp")?.unwrap_or(1))
}

impl List {
    fn parse(words: &mut Words<'_>) -> Result<Option<List>, Reason> {
        let place = words.parsed("at", Place::parse)?;
        let (len, key) = (words.number("len")?, words.parsed("lkey", Key::parse)?);
        match (place, len) {
            (Some(place), Some(len)) => Ok(Some(List { place, len, key: key.unwrap_or(Key::Good) })),
            (None, None) if key.is_none() => Ok(None),
            _ => Err("a list needs at=PLACE and len=N".into()),
        }
    }
}

impl Send {
    fn parse(words: &mut Words<'_>) -> Result<Send, Reason> {
        let (qp, wr_id) = (qp(words)?, words.next_number("a number")?);
        let name = words.next("an operation")?;
        let va = words.number("va")?.unwrap_or(PEER_VA);
        let rkey = words.number("rkey")?.unwrap_or(PEER_RKEY);
        let imm = words.number::<u32>("imm")?.map(u32::to_be_bytes);
        let op = match (name, imm) {
            ("SEND", None) => match words.number("invalidate")? {
                Some(rkey) => SendOp::SendInv { rkey },
                None => SendOp::Send,
            },
            ("SEND", Some(imm)) => SendOp::SendImm { imm },
            ("WRITE", None) => SendOp::Write { va, rkey },
            ("WRITE", Some(imm)) => SendOp::WriteImm { va, rkey, imm },
            ("READ", None) => SendOp::Read { va, rkey },
            ("FLUSH", None) => SendOp::Flush {
                va,
                rkey,
                flush: Flush {
                    placement: FlushPlacement::from_bits_retain(words.number("plt")?.unwrap_or(1)),
                    length: words.number("range")?,
                },
            },
            ("ATOMIC_WRITE", None) => SendOp::AtomicWrite { va, rkey },
            ("FETCH_ADD", None) => SendOp::FetchAdd { va, rkey, add: words.number("add")?.unwrap_or(1) },
            ("COMPARE_SWAP", None) => SendOp::CompareSwap {
                va,
                rkey,
                compare: words.number("compare")?.unwrap_or(0),
                swap: words.number("swap")?.unwrap_or(0),
            },
            _ => return Err(format!("{name} is no operation")),
        };
        let mut flags = SendFlags::SIGNALED;
        for (word, flag) in [("fence", SendFlags::FENCE), ("solicited", SendFlags::SOLICITED)] {
            flags.set(flag, words.flag(word));
        }
        Ok(Send { qp, wr_id, op, list: List::parse(words)?, flags, qkey: words.number("qkey")? })
    }
}

impl Completion {
    fn parse(words: &mut Words<'_>) -> Result<Completion, Reason> {
        let is_send = match words.next("send or recv")? {
            "send" => true,
            "recv" => false,
            other => return Err(format!("{other} is no queue: write send or recv")),
        };
        Ok(Completion {
            qp: qp(words)?,
            is_send,
            wr_id: words.next_number("a number")?,
            status: parse_status(words.next("a status")?)?,
            opcode: words.parsed("opcode", parse_wc_opcode)?,
            len: words.number("len")?,
            imm: words.number("imm")?,
            from_peer: words.flag("from-peer"),
        })
    }
}

impl Content {
    fn parse(words: &mut Words<'_>) -> Result<Content, Reason> {
        if words.flag("header") {
            return Ok(Content::Header);
        }
        if let Some(run) = words.parsed("data", Run::parse)? {
            return Ok(Content::Data(run));
        }
        if let Some(len) = words.number("zero")? {
            return Ok(Content::Zero(len));
        }
        words.number("word")?.map(Content::Word).ok_or_else(|| "write data=, zero=, word= or header".into())
    }
}

/// A name of a list.
fn named<T: Copy>(text: &str, what: &str, names: &[(&str, T)]) -> Result<T, Reason> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| format!("{text} is no {what}"))
}

fn parse_state(text: &str) -> Result<QpState, Reason> {
    crate::states::STATES
        .into_iter()
        .find(|state| state.to_string() == text)
        .ok_or_else(|| format!("{text} is no state"))
}

fn parse_event(text: &str) -> Result<AsyncEventKind, Reason> {
    let names = [
        ("COMM_EST", AsyncEventKind::CommEst),
        ("SQ_DRAINED", AsyncEventKind::SqDrained),
        ("QP_FATAL", AsyncEventKind::QpFatal),
        ("QP_REQ_ERR", AsyncEventKind::QpReqErr),
        ("QP_ACCESS_ERR", AsyncEventKind::QpAccessErr),
    ];
    named(text, "event", &names)
}

fn parse_status(text: &str) -> Result<WcStatus, Reason> {
    let names = [
        ("SUCCESS", WcStatus::Success),
        ("LOC_LEN_ERR", WcStatus::LocLenErr),
        ("LOC_QP_OP_ERR", WcStatus::LocQpOpErr),
        ("LOC_PROT_ERR", WcStatus::LocProtErr),
        ("WR_FLUSH_ERR", WcStatus::WrFlushErr),
        ("BAD_RESP_ERR", WcStatus::BadRespErr),
        ("LOC_ACCESS_ERR", WcStatus::LocAccessErr),
        ("REM_INV_REQ_ERR", WcStatus::RemInvReqErr),
        ("REM_ACCESS_ERR", WcStatus::RemAccessErr),
        ("REM_OP_ERR", WcStatus::RemOpErr),
        ("RETRY_EXC_ERR", WcStatus::RetryExcErr),
        ("RNR_RETRY_EXC_ERR", WcStatus::RnrRetryExcErr),
    ];
    named(text, "status", &names)
}

fn parse_wc_opcode(text: &str) -> Result<WcOpcode, Reason> {
    let names = [
        ("SEND", WcOpcode::Send),
        ("RDMA_WRITE", WcOpcode::RdmaWrite),
        ("RDMA_READ", WcOpcode::RdmaRead),
        ("COMP_SWAP", WcOpcode::CompSwap),
        ("FETCH_ADD", WcOpcode::FetchAdd),
        ("FLUSH", WcOpcode::Flush),
        ("ATOMIC_WRITE", WcOpcode::AtomicWrite),
        ("RECV", WcOpcode::Recv),
        ("RECV_RDMA_WITH_IMM", WcOpcode::RecvRdmaWithImm),
    ];
    named(text, "opcode of a completion", &names)
}

/// Rights with commas between them, `all` or `none`.
pub(super) fn parse_access(text: &str) -> Result<AccessFlags, Reason> {
    let names = [
        ("none", AccessFlags::empty()),
        ("local", AccessFlags::LOCAL_WRITE),
        ("write", AccessFlags::REMOTE_WRITE),
        ("read", AccessFlags::REMOTE_READ),
        ("atomic", AccessFlags::REMOTE_ATOMIC),
        ("flush-global", AccessFlags::FLUSH_GLOBAL),
        ("flush-persistent", AccessFlags::FLUSH_PERSISTENT),
        ("all", crate::lab::ALL_ACCESS),
    ];
    text.split(',').map(|word| named(word, "right", &names)).collect()
}

/// How long nothing may come for there to be silence, in virtual time: longer than any round trip, shorter than the
/// timers that scripts set.
pub(super) const SILENCE_NS: u64 = 1_000_000;
/// Where the peer's memory lies unless a line says otherwise. It does not exist: the script is the peer.
const PEER_VA: u64 = 0x1000;
/// Its key.
const PEER_RKEY: u32 = 0x77;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Step, Reason> {
        Step::parse(line, Service::Rc)
    }

    #[test]
    fn lines_become_steps() {
        assert_eq!(parse("quiet"), Ok(Step::Quiet(SILENCE_NS)));
        assert_eq!(parse("quiet 3s"), Ok(Step::Quiet(3_000_000_000)));
        assert_eq!(parse("pass 2ms"), Ok(Step::Pass(2_000_000)));
        assert_eq!(parse("recv 3"), Ok(Step::Recv { qp: 1, wr_id: 3, list: None }));
        let list = List { place: Place::Buffer(8), len: 16, key: Key::Good };
        assert_eq!(parse("recv 3 at=at+8 len=16 qp=2"), Ok(Step::Recv { qp: 2, wr_id: 3, list: Some(list) }));
        assert_eq!(
            parse("access write,read"),
            Ok(Step::Access { qp: 1, access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ })
        );
        let Ok(Step::Send(send)) = parse("send 1 WRITE imm=0x01020304 at=at len=5 fence") else {
            panic!("a send")
        };
        assert_eq!(send.op, SendOp::WriteImm { va: PEER_VA, rkey: PEER_RKEY, imm: [1, 2, 3, 4] });
        assert_eq!(send.flags, SendFlags::SIGNALED | SendFlags::FENCE);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("wc send 1 FINE", "FINE is no status"),
            ("recv 1 at=at", "len=N"),
            ("> SEND_ONLY psn=0 colour=red", "colour"),
            ("jump", "jump is no command"),
            ("memory at", "data="),
            ("send 1 RING", "RING is no operation"),
        ] {
            let reason = parse(line).expect_err(line);
            assert!(reason.contains(words), "{line}: {reason}");
        }
    }
}
