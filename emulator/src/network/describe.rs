//! The comment of a captured packet: what became of it, between which QPs it goes, and for which work request.

use super::VirtualNetwork;
use crate::frame::Frame;
use crate::nic::Host;
use crate::rules::{Address, Kind, ends, kind};
use ferroce_core::{Device, QpState};
use ferroce_wire::{Packet, Qpn};
use std::fmt::Write;
use std::net::IpAddr;

impl VirtualNetwork {
    /// `drop (rule 1) · a 0x000112 RTS → b 0x000105 RTS · request psn +3 to QP #1, time 2 · wr 7`
    pub(super) fn describe(&self, frame: &Frame, verdict: &str, address: Option<Address>) -> String {
        let mut text = verdict.to_string();
        let Ok(parsed) = frame.parse() else { return text };
        let packet = match parsed.packet() {
            Ok(packet) => packet,
            Err(error) => return format!("{text} · no packet: {error}"),
        };
        let (src, dst) = ends(&parsed.network());
        let (source, target) = (self.host_at(src), self.host_at(dst));
        let target_qpn = packet.bth().dest_qpn();
        let source_qpn = source_qpn(&packet, target);
        let _ = write!(text, " · {} → {}", end(source, src, source_qpn), end(target, dst, Some(target_qpn)));
        if let Some(Address { kind, qpn, psn, nth }) = address {
            let kind = match kind {
                Kind::Request => "request",
                Kind::Response => "response",
                Kind::Cnp => "CNP",
            };
            let _ = write!(text, " · {kind} psn +{psn} to QP #{qpn}, time {nth}");
        }
        // Both a request and the response to it belong to the requester's work request.
        let requester = match kind(&packet) {
            Kind::Request => source.and_then(device).zip(source_qpn),
            Kind::Response => target.and_then(device).map(|device| (device, target_qpn)),
            Kind::Cnp => None,
        };
        if let Some(wr_id) = requester.and_then(|(device, qpn)| device.wr_at(qpn, packet.bth().psn())) {
            let _ = write!(text, " · wr {wr_id}");
        }
        text
    }

    fn host_at(&self, address: IpAddr) -> Option<&Host> {
        self.hosts.iter().find(|host| host.addresses.contains(&address))
    }
}

fn device(host: &Host) -> Option<&Device> {
    host.nic().map(|nic| nic.device())
}

/// The sending QP: a datagram names it, a connected QP knows its peer.
fn source_qpn(packet: &Packet<'_>, target: Option<&Host>) -> Option<Qpn> {
    if let Some(deth) = packet.deth() {
        return Some(deth.source_qpn());
    }
    let attr = device(target?)?.query_qp(packet.bth().dest_qpn()).ok()?;
    attr.av.map(|_| attr.dest_qpn)
}

/// A QP with its state.
fn end(host: Option<&Host>, address: IpAddr, qpn: Option<Qpn>) -> String {
    let name = host.map_or_else(|| address.to_string(), |host| host.name.clone());
    let Some(qpn) = qpn else { return name };
    let state = host.and_then(device).and_then(|device| device.qp_state(qpn));
    format!("{name} {qpn} {}", state.map_or("unknown".into(), |state: QpState| state.to_string()))
}
