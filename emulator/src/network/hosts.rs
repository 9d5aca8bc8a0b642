//! What a host's owner calls: verbs, memory, time, and bare datagrams.

use super::{Event, HostId, Node, Port, VirtualNetwork};
use crate::memory::HostMemory;
use crate::nic::{Behind, Datagram, Host, VirtualNic, resolve};
use crate::rules::Kind;
use ferroce_core::{
    Completion, CreateQpError, DeregisterError, Device, Event as DeviceEvent, ModifyQpError, Nanos, Path,
    PathMtu, QpAttr, QpAttrMask, QpInit, RecvWr, RegionKeys, RegionSpec, RegisterError, SendWr, UnknownQp,
};
use ferroce_wire::Qpn;
use std::net::IpAddr;

impl Host {
    pub(super) fn nic(&self) -> Option<&VirtualNic> {
        match &self.behind {
            Behind::Nic(nic) => Some(nic),
            Behind::Inbox(_) => None,
        }
    }

    fn nic_mut(&mut self) -> &mut VirtualNic {
        match &mut self.behind {
            Behind::Nic(nic) => nic,
            Behind::Inbox(_) => panic!("{} is a bare host and has no card", self.name),
        }
    }
}

/// Calls about hosts with a card. They panic for a bare host.
impl VirtualNetwork {
    /// Calls the device of a host, and lets it send what it has to send then. Everything that has no method of its
    /// own here is done through it.
    pub fn call<T>(&mut self, host: HostId, call: impl FnOnce(&mut Device, Nanos, &HostMemory) -> T) -> T {
        let now = self.now;
        let nic = self.hosts[host.0].nic_mut();
        let result = call(&mut nic.device, now, &nic.memory);
        self.drive(host.0);
        result
    }

    /// Allocates memory of a host; see [`HostMemory::alloc`].
    pub fn alloc(&mut self, host: HostId, len: usize) -> u64 {
        self.hosts[host.0].nic_mut().memory.alloc(len)
    }

    /// Frees memory of a host; see [`HostMemory::free`].
    pub fn free(&mut self, host: HostId, addr: u64) -> bool {
        self.hosts[host.0].nic_mut().memory.free(addr)
    }

    /// The memory of a host.
    pub fn memory(&self, host: HostId) -> &HostMemory {
        match &self.hosts[host.0].behind {
            Behind::Nic(nic) => &nic.memory,
            Behind::Inbox(_) => panic!("{} is a bare host and has no card", self.hosts[host.0].name),
        }
    }

    /// Keeps a record of what the host's device does to its memory; see [`HostMemory::take_accesses`].
    pub fn record_accesses(&mut self, host: HostId) {
        self.hosts[host.0].nic_mut().memory.record_accesses();
    }

    /// Registers memory; see [`Device::register`].
    ///
    /// # Errors
    /// As there.
    pub fn register(&mut self, host: HostId, spec: RegionSpec) -> Result<RegionKeys, RegisterError> {
        self.call(host, |device, _, _| device.register(spec))
    }

    /// Takes a region out; see [`Device::deregister`].
    ///
    /// # Errors
    /// As there.
    pub fn deregister(&mut self, host: HostId, lkey: u32) -> Result<(), DeregisterError> {
        self.call(host, |device, _, _| device.deregister(lkey))
    }

    /// Creates a QP; see [`Device::create_qp`]. It gets the next relative QPN of its host.
    ///
    /// # Errors
    /// As there.
    pub fn create_qp(&mut self, host: HostId, init: QpInit) -> Result<Qpn, CreateQpError> {
        let qpn = self.call(host, |device, _, _| device.create_qp(init))?;
        self.rules.qp_created(&self.hosts[host.0].addresses, qpn);
        Ok(qpn)
    }

    /// Destroys a QP; see [`Device::destroy_qp`].
    ///
    /// # Errors
    /// As there.
    pub fn destroy_qp(&mut self, host: HostId, qpn: Qpn) -> Result<(), UnknownQp> {
        self.call(host, |device, _, _| device.destroy_qp(qpn))?;
        self.rules.qp_destroyed(&self.hosts[host.0].addresses, qpn);
        Ok(())
    }

    /// Changes a QP; see [`Device::modify_qp`].
    ///
    /// # Errors
    /// As there.
    pub fn modify_qp(
        &mut self,
        host: HostId,
        qpn: Qpn,
        attr: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<(), ModifyQpError> {
        self.call(host, |device, now, _| device.modify_qp(now, qpn, attr, mask))?;
        let addresses = &self.hosts[host.0].addresses;
        if mask.contains(QpAttrMask::RQ_PSN) {
            self.rules.psn_started(addresses, qpn, Kind::Request, attr.rq_psn);
        }
        if mask.contains(QpAttrMask::SQ_PSN) {
            self.rules.psn_started(addresses, qpn, Kind::Response, attr.sq_psn);
        }
        Ok(())
    }

    /// Posts a send work request; see [`Device::post_send`].
    ///
    /// # Errors
    /// As there.
    pub fn post_send(&mut self, host: HostId, qpn: Qpn, wr: SendWr) -> Result<(), UnknownQp> {
        self.call(host, |device, now, _| device.post_send(now, qpn, wr))
    }

    /// Posts a receive work request; see [`Device::post_recv`].
    ///
    /// # Errors
    /// As there.
    pub fn post_recv(&mut self, host: HostId, qpn: Qpn, wr: RecvWr) -> Result<(), UnknownQp> {
        self.call(host, |device, now, _| device.post_recv(now, qpn, wr))
    }

    /// The next completion of a host, whatever CQ it goes to.
    pub fn poll_completion(&mut self, host: HostId) -> Option<Completion> {
        self.hosts[host.0].nic_mut().device.poll_completion()
    }

    /// The next event of a host.
    pub fn poll_event(&mut self, host: HostId) -> Option<DeviceEvent> {
        self.hosts[host.0].nic_mut().device.poll_event()
    }

    /// The process on this host dies and another starts: QPs, regions, memory and whatever waited to be sent are gone,
    /// and no peer is told. The new process's device has other QPNs and keys.
    pub fn restart(&mut self, host: HostId) {
        self.hosts[host.0].restart();
    }

    /// Lets the device send what it has to send, and asks when it wants to be called next.
    pub(super) fn drive(&mut self, host: usize) {
        let port = Port { node: Node::Host(HostId(host)), number: 0 };
        // The transmitter is free in the first round at most, so there are two.
        loop {
            self.hosts[host].transmit(self.now, &self.neighbours);
            if !self.try_start(port) {
                break;
            }
        }
        let Behind::Nic(nic) = &mut self.hosts[host].behind else { return };
        let Some(at) = nic.device.poll_timeout() else { return };
        if nic.timer_at.is_none_or(|planned| at < planned) {
            nic.timer_at = Some(at);
            self.plan(at, Event::Deadline { host });
        }
    }

    /// A device's deadline has come.
    pub(super) fn deadline(&mut self, host: usize) {
        let now = self.now;
        let Behind::Nic(nic) = &mut self.hosts[host].behind else { return };
        if nic.timer_at.is_some_and(|at| at <= now) {
            nic.timer_at = None;
            nic.device.handle_timeout(now);
            self.drive(host);
        }
    }
}

/// Calls about all hosts.
impl VirtualNetwork {
    /// A host's first address.
    pub fn address(&self, host: HostId) -> Option<IpAddr> {
        self.hosts[host.0].addresses.first().copied()
    }

    /// The largest path MTU that a host's link takes (`active_mtu`).
    pub fn active_mtu(&self, host: HostId) -> PathMtu {
        let mtu = self.hosts[host.0].link.map_or(u32::MAX, |(link, _)| self.links[link].config.mtu);
        PathMtu::fitting(mtu).unwrap_or(PathMtu::Mtu256)
    }

    /// Sends a UDP payload from a host, which need not be one that its card would send; `seal` computes its ICRC.
    /// Whether the address is known and the port had room.
    pub fn send_datagram(&mut self, host: HostId, path: &Path, udp_payload: &[u8], seal: bool) -> bool {
        let Some(mac) = resolve(&self.neighbours, path.dst) else {
            self.hosts[host.0].stats.unresolved += 1;
            return false;
        };
        let sent = self.hosts[host.0].send(path, udp_payload, seal, mac);
        self.drive(host.0);
        sent
    }

    /// Sends an IP datagram from a host as it is, to the host that has the address `dst`: with it tests make headers that
    /// no card would. Whether the address is known and the port had room.
    pub fn send_ip_datagram(&mut self, host: HostId, dst: IpAddr, datagram: &[u8]) -> bool {
        let Some(mac) = resolve(&self.neighbours, dst) else {
            self.hosts[host.0].stats.unresolved += 1;
            return false;
        };
        let sent = self.hosts[host.0].send_ip_datagram(dst, datagram, mac);
        self.drive(host.0);
        sent
    }

    /// The next UDP payload that came to a bare host.
    pub fn poll_datagram(&mut self, host: HostId) -> Option<Datagram> {
        match &mut self.hosts[host.0].behind {
            Behind::Inbox(inbox) => inbox.pop_front(),
            Behind::Nic(_) => None,
        }
    }
}
