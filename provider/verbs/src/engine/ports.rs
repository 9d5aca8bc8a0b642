//! The ports of open devices: what happens to their interfaces becomes asynchronous events.

use super::Inner;
use crate::attr::Link;
use crate::device::{Device, PortView};
use crate::events::{AsyncEventKind, AsyncEvents};
use smallvec::SmallVec;
use std::sync::{Arc, Weak};

/// A device that somebody has open.
#[derive(Debug)]
pub(super) struct OpenPort {
    device: Device,
    events: Weak<AsyncEvents>,
    /// As the events raised so far have left it.
    told: PortView,
}

impl Inner {
    /// Tells `events` of what happens to the device's port from now on, for as long as they last.
    pub(crate) fn follow_port(&self, device: Device, events: &Arc<AsyncEvents>) {
        let told = device.look_closely();
        let mut ports = self.ports.lock();
        // Those of contexts that are closed.
        ports.retain(|port| port.events.strong_count() > 0);
        ports.push(OpenPort { device, events: Arc::downgrade(events), told });
    }

    /// Something about the host's interfaces has changed.
    pub(super) fn follow_interfaces(&self) {
        self.ports.lock().retain_mut(|port| {
            let Some(events) = port.events.upgrade() else { return false };
            let now = port.device.look_closely();
            for kind in happened(&port.told, &now) {
                tracing::info!(device = port.device.name(), ?kind, "the interface has changed");
                events.raise_of_port(kind);
            }
            port.told = now;
            true
        });
    }
}

/// What lies between two looks at a port.
fn happened(before: &PortView, now: &PortView) -> SmallVec<[AsyncEventKind; 2]> {
    let mut kinds = SmallVec::new();
    let is_active = |view: &PortView| view.link == Some(Link::Up);
    match (is_active(before), is_active(now)) {
        (true, false) => kinds.push(AsyncEventKind::PortErr),
        (false, true) => kinds.push(AsyncEventKind::PortActive),
        _ => {}
    }
    if before.gids != now.gids {
        kinds.push(AsyncEventKind::GidChange);
    }
    // As a card that is pulled out: nothing on the device works any more.
    if before.link.is_some() && now.link.is_none() {
        kinds.push(AsyncEventKind::DeviceFatal);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gid::GidTable;
    use AsyncEventKind::{DeviceFatal, GidChange, PortActive, PortErr};

    fn view(link: Option<Link>, addrs: &[&str]) -> PortView {
        let addrs: Vec<_> = addrs.iter().map(|addr| addr.parse().expect("an address")).collect();
        PortView { link, gids: GidTable::new(&addrs) }
    }

    #[test]
    fn each_change_has_its_event_and_no_change_has_none() {
        let up = view(Some(Link::Up), &["10.0.0.1"]);
        let unplugged = view(Some(Link::NoCarrier), &["10.0.0.1"]);
        let off = view(Some(Link::Off), &["10.0.0.1"]);
        let gone = view(None, &["10.0.0.1"]);
        let more = view(Some(Link::Up), &["10.0.0.1", "10.0.0.2"]);
        for (before, now, expected) in [
            (&up, &up, &[][..]),
            (&up, &unplugged, &[PortErr]),
            (&unplugged, &off, &[]),
            (&off, &up, &[PortActive]),
            (&up, &more, &[GidChange]),
            (&more, &off, &[PortErr, GidChange]),
            (&up, &gone, &[PortErr, DeviceFatal]),
            (&off, &gone, &[DeviceFatal]),
            (&gone, &gone, &[]),
        ] {
            assert_eq!(happened(before, now).as_slice(), expected, "{before:?} to {now:?}");
        }
    }
}
