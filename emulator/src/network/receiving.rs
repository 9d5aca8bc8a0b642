//! Frames that come to a host.

use super::{Event, HostId, Node, Port, VirtualNetwork};
use crate::egress::{to_ns, transmission_ps};
use crate::frame::Frame;
use crate::nic::{Behind, Datagram, Host, is_multicast};
use crate::rules::ends;
use bytes::Bytes;
use ferroce_core::{Ipv4Id, PacketMeta};
use ferroce_wire::frame::Network;

impl VirtualNetwork {
    /// A frame has come to a host's port.
    pub(super) fn receive(&mut self, host: usize, frame: Frame) {
        let state = &mut self.hosts[host];
        let config = state.config.receive;
        if config.rate_bps.is_none() {
            return self.take_in(host, &frame);
        }
        let (priority, len) = (frame.priority(), frame.wire_len());
        let pfc = config.pfc.filter(|pfc| pfc.covers(priority));
        let receive = &mut state.receive;
        let has_room = match pfc {
            Some(pfc) => receive.account.has_room(&pfc, priority, len),
            None => receive.bytes + len <= config.buffer_bytes,
        };
        if !has_room {
            state.stats.overrun += 1;
            return;
        }
        let signal = pfc.and_then(|pfc| receive.account.add(&pfc, priority, len));
        receive.bytes += len;
        receive.queue.push_back(frame);
        if let Some(signal) = signal {
            self.signal(Port { node: Node::Host(HostId(host)), number: 0 }, priority, signal);
        }
        self.take_next(host);
    }

    /// Begins to take in the frame that has waited longest.
    fn take_next(&mut self, host: usize) {
        let now = self.now;
        let Host { receive, config, .. } = &mut self.hosts[host];
        let (false, Some(frame), Some(rate)) =
            (receive.is_busy, receive.queue.front(), config.receive.rate_bps)
        else {
            return;
        };
        receive.is_busy = true;
        receive.free_at_ps =
            receive.free_at_ps.max(now * 1000) + transmission_ps(frame.wire_len(), rate.max(1));
        let at = to_ns(receive.free_at_ps);
        self.plan(at, Event::Taken { host });
    }

    /// The frame that was being taken in is.
    pub(super) fn taken(&mut self, host: usize) {
        let Host { receive, config, .. } = &mut self.hosts[host];
        receive.is_busy = false;
        let Some(frame) = receive.queue.pop_front() else { return };
        let (priority, len) = (frame.priority(), frame.wire_len());
        receive.bytes -= len;
        let pfc = config.receive.pfc.filter(|pfc| pfc.covers(priority));
        if let Some(signal) = pfc.and_then(|pfc| receive.account.remove(&pfc, priority, len)) {
            self.signal(Port { node: Node::Host(HostId(host)), number: 0 }, priority, signal);
        }
        self.take_in(host, &frame);
        self.take_next(host);
    }

    /// Hands a frame to what is behind the port.
    fn take_in(&mut self, host: usize, frame: &Frame) {
        let now = self.now;
        let state = &mut self.hosts[host];
        let Some((meta, payload)) = open(state, frame) else {
            state.stats.not_taken += 1;
            return;
        };
        match &mut state.behind {
            Behind::Nic(nic) => nic.device.handle_packet(now, &meta, payload, &nic.memory),
            Behind::Inbox(inbox) => {
                inbox.push_back(Datagram { at: now, meta, payload: Bytes::copy_from_slice(payload) });
            }
        }
        self.drive(host);
    }
}

/// The UDP payload of a frame for this host, and what stands in front of it.
fn open<'a>(host: &Host, frame: &'a Frame) -> Option<(PacketMeta, &'a [u8])> {
    let to_all = is_multicast(frame.destination());
    if frame.destination() != host.mac && !to_all {
        return None;
    }
    let parsed = frame.parse().ok()?;
    let (src, dst) = ends(&parsed.network());
    let is_own = to_all && dst.is_multicast() || host.addresses.iter().any(|own| own.to_canonical() == dst);
    if !is_own {
        return None;
    }
    let (source_port, traffic_class, ip_id) = match parsed.network() {
        Network::Ipv4(ip, udp) if ip.is_checksum_right() => {
            (udp.source_port(), ip.tos(), Ipv4Id::Seen(ip.id()))
        }
        Network::Ipv6(ip, udp) => (udp.source_port(), ip.traffic_class(), Ipv4Id::Seen(0)),
        Network::Ipv4(..) | Network::RoceV1(_) => return None,
    };
    let meta =
        PacketMeta { src, dst, source_port, traffic_class, icrc_checked: false, ip_id, continues: false };
    Some((meta, parsed.transport()))
}
