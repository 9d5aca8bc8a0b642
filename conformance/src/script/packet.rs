//! Packets as scripts write them: to be sent, with everything that may be wrong with them; or expected, with what is
//! looked at.

use super::number::{Key, Place, Run, parse_number, parse_signed, parse_time};
use super::words::{Reason, Words};
use crate::fabric::{Envelope, RawSource};
use ferroce_wire::{Opcode, Service, Syndrome};

/// What a line says about a packet. What it does not say is left at what is right when the packet is sent, and not
/// looked at when it is expected; but see [`super::peer`] for what every expected packet has to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    pub(super) opcode: Opcode,
    /// Relative to the first of its direction.
    pub(super) psn: Option<i32>,
    pub(super) ack_req: Option<bool>,
    pub(super) solicited: Option<bool>,
    pub(super) mig_req: Option<bool>,
    pub(super) data: Option<Run>,
    pub(super) va: Option<Place>,
    pub(super) rkey: Option<Key>,
    /// The RETH's length.
    pub(super) len: Option<u32>,
    /// The FETH's placement type: 1 is global visibility, 2 persistence.
    pub(super) placement: Option<u8>,
    /// The FETH's selectivity: 0 is a range, 1 the region.
    pub(super) selectivity: Option<u8>,
    pub(super) swap_or_add: Option<u64>,
    pub(super) compare: Option<u64>,
    pub(super) syndrome: Option<Syndrome>,
    pub(super) msn: Option<u32>,
    pub(super) original: Option<u64>,
    pub(super) imm: Option<u32>,
    /// The key that the IETH names.
    pub(super) invalidate: Option<Key>,
    pub(super) qkey: Option<u32>,
    /// The DETH's source QPN; `None` is the sender's own.
    pub(super) source_qpn: Option<u32>,
    pub(super) traffic_class: Option<u8>,
    /// Which of the script's QPs it goes to or comes from, from 1.
    pub(super) qp: usize,
}

/// What is wrong, or out of the ordinary, with a packet that is sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Faults {
    pub(super) opcode: Option<u8>,
    pub(super) transport_version: Option<u8>,
    pub(super) pkey: Option<u16>,
    pub(super) pad_count: Option<u8>,
    pub(super) qpn: Option<u32>,
    /// The six reserved bits behind FECN and BECN.
    pub(super) reserved6: Option<u8>,
    pub(super) fecn: bool,
    pub(super) becn: bool,
    /// The seven reserved bits behind AckReq.
    pub(super) reserved7: Option<u8>,
    /// Only so many bytes of the UDP payload are left.
    pub(super) cut: Option<usize>,
    /// The ICRC is not the right one.
    pub(super) bad_icrc: bool,
    pub(super) source_port: Option<u16>,
    pub(super) from_stranger: bool,
    pub(super) envelope: Option<Envelope>,
    pub(super) to_group: bool,
}

impl Faults {
    pub(super) fn source(&self) -> RawSource {
        if self.from_stranger { RawSource::Stranger } else { RawSource::Peer }
    }
}

impl Packet {
    /// The rest of a line that begins with an opcode. Without its service it is that of the script's QP.
    pub(super) fn parse(words: &mut Words<'_>, service: Service) -> Result<Packet, Reason> {
        Ok(Packet {
            opcode: parse_opcode(words.next("an opcode")?, service)?,
            psn: words.parsed("psn", parse_signed)?,
            ack_req: words.tri("A"),
            solicited: words.tri("SE"),
            mig_req: words.tri("M"),
            data: words.parsed("data", Run::parse)?,
            va: words.parsed("va", Place::parse)?,
            rkey: words.parsed("rkey", Key::parse)?,
            len: words.number("len")?,
            placement: words.number("plt")?,
            selectivity: words.number("sel")?,
            swap_or_add: match words.number("add")? {
                None => words.number("swap")?,
                add => add,
            },
            compare: words.number("compare")?,
            syndrome: parse_syndrome(words)?,
            msn: words.number("msn")?,
            original: words.number("original")?,
            imm: words.number("imm")?,
            invalidate: words.parsed("invalidate", Key::parse)?,
            qkey: words.number("qkey")?,
            source_qpn: words.number("srcqp")?,
            traffic_class: words.number("tos")?,
            qp: words.number("qp")?.unwrap_or(1),
        })
    }
}

impl Faults {
    /// What else a line that sends a packet may say.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Faults, Reason> {
        let options = words.flag("ip-options").then_some(Envelope::IpOptions);
        let udp = words.parsed("udp-length", parse_signed)?;
        Ok(Faults {
            opcode: words.number("opcode")?,
            transport_version: words.number("tver")?,
            pkey: words.number("pkey")?,
            pad_count: words.number("pad")?,
            qpn: words.number("qpn")?,
            reserved6: words.number("resv6")?,
            fecn: words.flag("FECN"),
            becn: words.flag("BECN"),
            reserved7: words.number("resv7")?,
            cut: words.number("cut")?,
            bad_icrc: words.flag("bad-icrc"),
            source_port: words.number("sport")?,
            from_stranger: words.flag("stranger"),
            envelope: options.or(udp.map(|by| Envelope::UdpLength(by as i16))),
            to_group: words.flag("group"),
        })
    }
}

/// The earliest moment of a packet that is expected, counted from the last one that was sent.
pub(super) fn parse_after(words: &mut Words<'_>) -> Result<Option<u64>, Reason> {
    words.parsed("after", parse_time)
}

fn parse_opcode(name: &str, service: Service) -> Result<Opcode, Reason> {
    let prefix = match service {
        Service::Uc => "UC",
        Service::Ud => "UD",
        Service::Xrc => "XRC",
        _ => "RC",
    };
    let full = format!("{prefix}_{name}");
    let found = Opcode::all().find(|opcode| opcode.name() == name || opcode.name() == full);
    found.ok_or_else(|| format!("{name} is no opcode of {prefix}"))
}

/// `ack`, `ack=5`, `rnr=12`, `nak=seq`, or any byte as `syndrome=0x65`.
fn parse_syndrome(words: &mut Words<'_>) -> Result<Option<Syndrome>, Reason> {
    if words.flag("ack") {
        return Ok(Some(Syndrome::ACK));
    }
    if let Some(credits) = words.number("ack")? {
        return Ok(Some(Syndrome::Ack { credits }));
    }
    if let Some(timer) = words.number("rnr")? {
        return Ok(Some(Syndrome::RnrNak { timer }));
    }
    if let Some(byte) = words.parsed("nak", parse_nak)? {
        return Ok(Some(Syndrome::from_u8(byte)));
    }
    Ok(words.number("syndrome")?.map(Syndrome::from_u8))
}

fn parse_nak(text: &str) -> Result<u8, Reason> {
    let code = match text {
        "seq" => 0,
        "invalid-request" => 1,
        "access" => 2,
        "operational" => 3,
        other => parse_number(other)?,
    };
    Ok(NAK_CLASS | code as u8 & 0x1f)
}

/// The syndrome of NAK code 0.
const NAK_CLASS: u8 = 0x60;

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::NakCode;

    #[test]
    fn a_line_says_what_is_in_a_packet() {
        let mut words =
            Words::new("WRITE_FIRST psn=-2 A !SE data=256@4 va=at+8 rkey=bad len=300 sport=0 pad=3");
        let packet = Packet::parse(&mut words, Service::Uc).expect("a packet");
        let faults = Faults::parse(&mut words).expect("its faults");
        assert_eq!(words.end(), Ok(()));
        assert_eq!((packet.opcode, packet.psn), (Opcode::UC_WRITE_FIRST, Some(-2)));
        assert_eq!((packet.ack_req, packet.solicited, packet.mig_req), (Some(true), Some(false), None));
        assert_eq!((packet.va, packet.rkey, packet.len), (Some(Place::Buffer(8)), Some(Key::Bad), Some(300)));
        assert_eq!((faults.source_port, faults.pad_count), (Some(0), Some(3)));
    }

    #[test]
    fn syndromes_have_names() {
        let syndrome = |text| parse_syndrome(&mut Words::new(text));
        assert_eq!(syndrome("ack"), Ok(Some(Syndrome::ACK)));
        assert_eq!(syndrome("ack=5"), Ok(Some(Syndrome::Ack { credits: 5 })));
        assert_eq!(syndrome("rnr=12"), Ok(Some(Syndrome::RnrNak { timer: 12 })));
        assert_eq!(syndrome("nak=access"), Ok(Some(Syndrome::Nak(NakCode::RemoteAccessError))));
        assert_eq!(syndrome("nak=5"), Ok(Some(Syndrome::Nak(NakCode::Reserved(5)))));
        assert_eq!(syndrome("syndrome=0x40"), Ok(Some(Syndrome::Reserved(0x40))));
        assert!(syndrome("nak=never").is_err());
    }

    #[test]
    fn an_opcode_of_another_service_needs_its_name() {
        assert_eq!(parse_opcode("XRC_SEND_ONLY", Service::Rc), Ok(Opcode::XRC_SEND_ONLY));
        assert!(parse_opcode("READ_REQUEST", Service::Uc).is_err());
    }
}
