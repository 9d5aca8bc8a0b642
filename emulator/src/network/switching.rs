//! Frames inside a switch, and flow control on every port.

use super::{Event, HostId, Node, Port, SwitchId, VirtualNetwork};
use crate::frame::{Frame, PRIORITIES};
use crate::nic::is_multicast;
use crate::pfc::{PAUSE_QUANTA, PauseFrame, Signal, pause_ns};

impl VirtualNetwork {
    /// A frame has come to a port.
    pub(super) fn arrive(&mut self, port: Port, link: usize, frame: Frame) {
        if let Some(pause) = PauseFrame::decode(&frame) {
            return self.pause(port, link, &pause);
        }
        match port.node {
            Node::Host(HostId(number)) => self.receive(number, frame),
            Node::Switch(switch) => self.forward(switch, port.number, frame),
        }
    }

    fn forward(&mut self, switch: SwitchId, came_by: usize, frame: Frame) {
        let ports = self.routes().next(switch, came_by, &frame, is_multicast(frame.destination()));
        if ports.is_empty() {
            self.record_drop(switch, &frame, "no way leads to its destination");
        }
        for port in ports {
            match self.switches[switch.0].admit(came_by, port, &frame) {
                Ok(()) => self.enqueue(switch, came_by, port, frame.clone()),
                Err(reason) => {
                    self.switches[switch.0].ports[port].egress.count_drop();
                    self.record_drop(switch, &frame, &reason);
                }
            }
        }
    }

    fn enqueue(&mut self, switch: SwitchId, came_by: usize, port: usize, frame: Frame) {
        let state = &mut self.switches[switch.0];
        let (priority, len) = (frame.priority(), frame.wire_len());
        let signal = match state.lossless(priority) {
            Some(pfc) => state.ports[came_by].account.add(&pfc, priority, len),
            None => None,
        };
        state.ports[port].egress.push(frame, Some(came_by), &mut state.chance);
        if let Some(signal) = signal {
            self.signal(Port { node: Node::Switch(switch), number: came_by }, priority, signal);
        }
        self.start(Port { node: Node::Switch(switch), number: port });
    }

    /// A frame that came in by the port `from` leaves the switch.
    pub(super) fn leave_switch(&mut self, switch: SwitchId, from: usize, frame: &Frame) {
        let state = &mut self.switches[switch.0];
        let priority = frame.priority();
        let Some(pfc) = state.lossless(priority) else { return };
        if let Some(signal) = state.ports[from].account.remove(&pfc, priority, frame.wire_len()) {
            self.signal(Port { node: Node::Switch(switch), number: from }, priority, signal);
        }
    }

    /// Tells the neighbour behind `port` to stop, or to go on.
    pub(super) fn signal(&mut self, port: Port, priority: usize, signal: Signal) {
        let mac = match port.node {
            Node::Host(HostId(number)) => self.hosts[number].mac,
            Node::Switch(SwitchId(number)) => self.switches[number].ports[port.number].mac,
        };
        let frame = PauseFrame::new(priority, signal).encode(mac);
        let egress = self.egress_mut(port);
        egress.push_control(frame, signal == Signal::Xoff);
        let renewal = pause_ns(PAUSE_QUANTA, egress.rate_bps()) / 2;
        if signal == Signal::Xoff {
            self.plan(self.now + renewal, Event::Renew { port, priority });
        }
        self.start(port);
    }

    /// Half of a pause is over.
    pub(super) fn renew(&mut self, port: Port, priority: usize) {
        let account = match port.node {
            Node::Host(HostId(number)) => &self.hosts[number].receive.account,
            Node::Switch(SwitchId(number)) => &self.switches[number].ports[port.number].account,
        };
        if account.is_paused(priority) {
            self.signal(port, priority, Signal::Xoff);
        }
    }

    /// The neighbour says to stop, or to go on.
    fn pause(&mut self, port: Port, link: usize, pause: &PauseFrame) {
        let rate = self.links[link].config.rate_bps;
        let now = self.now;
        for priority in 0..PRIORITIES {
            let Some(quanta) = pause.quanta[priority] else { continue };
            let until = now + pause_ns(quanta, rate);
            self.egress_mut(port).pause(now, priority, until);
            self.plan(until, Event::Resume { port });
        }
    }

    fn record_drop(&mut self, switch: SwitchId, frame: &Frame, reason: &str) {
        if self.capture.is_none() {
            return;
        }
        let comment = self.describe(frame, &format!("dropped: {reason}"), None);
        let name = format!("{} drops", self.switches[switch.0].config.name);
        if let Some(capture) = &mut self.capture {
            capture.record(&name, 0, self.now, frame.bytes(), &comment);
        }
    }
}
