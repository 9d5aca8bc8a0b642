//! A frame on a link: what becomes of it there.

use super::{Event, HostId, Node, Port, VirtualNetwork};
use crate::egress::to_ns;
use crate::frame::Frame;
use crate::link::Link;
use crate::pfc::PauseFrame;
use crate::rules::{Action, Address, Crossing};
use ferroce_core::Nanos;

/// What becomes of a frame.
struct Verdict {
    /// The frame as it goes on.
    frame: Frame,
    /// How it goes on.
    fate: Fate,
    /// Why, for captures.
    reason: String,
    address: Option<Address>,
}

/// How a frame goes on.
enum Fate {
    /// It does not.
    Lost,
    /// It arrives.
    Arrives,
    /// It arrives late, and others pass it.
    Late(Nanos),
    /// It arrives, and some copies behind it.
    Copied { copies: u32, after_ns: Nanos },
    /// It waits for others to pass it.
    Held { packets: u32, at_most_ns: Nanos },
}

impl VirtualNetwork {
    /// Lets a port send, if it is free and has something to send.
    pub(super) fn start(&mut self, port: Port) {
        self.try_start(port);
    }

    /// The same; whether it began to.
    pub(super) fn try_start(&mut self, port: Port) -> bool {
        let now = self.now;
        let Some(departure) = self.egress_mut(port).start(now) else { return false };
        let sent = to_ns(departure.ends_at_ps);
        self.plan(sent, Event::Sent { port });
        let (link, way) = match port.node {
            Node::Host(HostId(number)) => {
                let host = &self.hosts[number];
                let leaves = departure.frame.destination() != host.mac;
                // What has no link to leave by is lost.
                match (leaves, host.link) {
                    (false, _) => (host.loopback, 0),
                    (true, Some(link)) => link,
                    (true, None) => return true,
                }
            }
            Node::Switch(switch) => {
                if let Some(from) = departure.from_port {
                    self.leave_switch(switch, from, &departure.frame);
                }
                let port = &self.switches[switch.0].ports[port.number];
                (port.link, port.way)
            }
        };
        self.cross(link, way, departure.frame, sent);
        true
    }

    /// A frame begins to cross a link; its last bit is on it at `sent`.
    fn cross(&mut self, link: usize, way: usize, frame: Frame, sent: Nanos) {
        self.links[link].ways[way].stats.frames += 1;
        let verdict = match PauseFrame::decode(&frame) {
            Some(pause) => self.judge_pause(link, way, frame, &pause),
            None => self.judge(link, way, frame),
        };
        self.record(link, &verdict);
        let Link { config, ways, .. } = &mut self.links[link];
        let way_state = &mut ways[way];
        let arrival = match verdict.fate {
            Fate::Lost => return,
            // Neither disturbs the order of the others.
            Fate::Late(ns) => {
                let at = sent + config.delay_ns + ns;
                return self.plan(at, Event::Arrive { link, way, frame: verdict.frame });
            }
            Fate::Held { packets, at_most_ns } => {
                let number = way_state.hold(verdict.frame, packets);
                let at = sent + config.delay_ns + at_most_ns;
                return self.plan(at, Event::Release { link, way, number });
            }
            Fate::Arrives | Fate::Copied { .. } => way_state.arrival(sent, config),
        };
        let overtaken = way_state.overtake();
        if let Fate::Copied { copies, after_ns } = verdict.fate {
            self.plan(arrival, Event::Arrive { link, way, frame: verdict.frame.clone() });
            for copy in 1..=u64::from(copies) {
                let at = arrival.saturating_add(copy.saturating_mul(after_ns));
                self.plan(at, Event::Arrive { link, way, frame: verdict.frame.clone() });
            }
        } else {
            self.plan(arrival, Event::Arrive { link, way, frame: verdict.frame });
        }
        for frame in overtaken {
            self.plan(arrival, Event::Arrive { link, way, frame });
        }
    }

    /// A frame that was held back has waited long enough.
    pub(super) fn release(&mut self, link: usize, way: usize, number: u64) {
        if let Some(frame) = self.links[link].ways[way].release(number) {
            self.plan(self.now, Event::Arrive { link, way, frame });
        }
    }

    /// Pause frames are below all rules, but not above a link that is down.
    fn judge_pause(&mut self, link: usize, way: usize, frame: Frame, pause: &PauseFrame) -> Verdict {
        let is_up = self.links[link].is_up;
        self.links[link].ways[way].stats.while_down += u64::from(!is_up);
        let (fate, word) =
            if is_up { (Fate::Arrives, "pass") } else { (Fate::Lost, "lost: the link is down") };
        Verdict { frame, fate, reason: format!("{word} · {pause}"), address: None }
    }

    fn judge(&mut self, link: usize, way: usize, frame: Frame) -> Verdict {
        let Link { name, end_names, config, ends, ways, is_up, .. } = &mut self.links[link];
        let crossing = Crossing {
            way: Link::way_number(link, way),
            link: name,
            from: &end_names[way],
            to: &end_names[1 - way],
            is_first: matches!(ends[way].node, Node::Host(_)),
        };
        let judgement = self.rules.judge(self.now, crossing, &frame);
        let address = judgement.address;
        let stats = &mut ways[way].stats;
        if !*is_up {
            stats.while_down += 1;
            return Verdict { frame, fate: Fate::Lost, reason: "lost: the link is down".into(), address };
        }
        if frame.datagram_len() > config.mtu as usize {
            stats.too_long += 1;
            let reason = format!("lost: {} bytes exceed the MTU of {}", frame.datagram_len(), config.mtu);
            return Verdict { frame, fate: Fate::Lost, reason, address };
        }
        let (frame, fate, reason) = match judgement.decision {
            Some((action, label)) => {
                stats.dropped += u64::from(action == Action::Drop);
                let reason = format!("{action} ({label})");
                let (frame, fate) = self.apply(action, frame);
                (frame, fate, reason)
            }
            None => (frame, Fate::Arrives, "pass".into()),
        };
        let Link { config, ways, .. } = &mut self.links[link];
        if !matches!(fate, Fate::Lost) && ways[way].chance.ppm(config.loss_ppm) {
            ways[way].stats.lost += 1;
            return Verdict { frame, fate: Fate::Lost, reason: "lost: by chance".into(), address };
        }
        Verdict { frame, fate, reason, address }
    }

    fn apply(&mut self, action: Action, frame: Frame) -> (Frame, Fate) {
        match action {
            Action::Pass => (frame, Fate::Arrives),
            Action::Drop => (frame, Fate::Lost),
            Action::Delay { ns } => (frame, Fate::Late(ns)),
            Action::Duplicate { copies, after_ns } => (frame, Fate::Copied { copies, after_ns }),
            Action::Corrupt { bit } => {
                let bit = bit.unwrap_or_else(|| self.rules.any_bit(frame.payload_bits()));
                (frame.damaged(bit), Fate::Arrives)
            }
            Action::MarkCe => (frame.marked(true).unwrap_or(frame), Fate::Arrives),
            Action::Reorder { packets: 0, .. } => (frame, Fate::Arrives),
            Action::Reorder { packets, at_most_ns } => (frame, Fate::Held { packets, at_most_ns }),
            Action::Replace { payload, seal } => (frame.replaced(&payload.0, seal), Fate::Arrives),
            Action::Truncate { len } => (frame.truncated(len), Fate::Arrives),
        }
    }

    fn record(&mut self, link: usize, verdict: &Verdict) {
        if self.capture.is_none() {
            return;
        }
        let comment = self.describe(&verdict.frame, &verdict.reason, verdict.address);
        let Link { name, config, .. } = &self.links[link];
        if let Some(capture) = &mut self.capture {
            capture.record(name, config.rate_bps, self.now, verdict.frame.bytes(), &comment);
        }
    }
}
