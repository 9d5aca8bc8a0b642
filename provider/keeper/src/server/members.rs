//! The processes that manage connections: which datagrams are theirs, and what becomes of their connections when they
//! die.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ferroce_cm::{ListenAddr, Orphan, Route};
use ferroce_port::fd_passing;
use ferroce_wire::cm::{CmaHeader, Message, ServiceId};
use ferroce_wire::mad::Mad;
use socket2::{Domain, Socket, Type};

use crate::KeeperError;
use crate::gsi_record::{GsiRecord, RECORD_LEN};
use crate::ports::Ports;
use crate::{COMM_ID_BITS, MAX_MEMBERS};

/// The processes and their ports.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) ports: Ports,
    by_number: BTreeMap<u16, Member>,
    /// Who got a request lately, by the peer's device and communication ID: what comes again goes there, too, though
    /// nobody may listen any more.
    requests: BTreeMap<(u64, u32), u16>,
    order: VecDeque<(u64, u32)>,
    next: u16,
}

#[derive(Debug)]
struct Member {
    socket: OwnedFd,
    /// What its socket has no room for.
    waiting: VecDeque<GsiRecord>,
    /// Its established connections by communication ID.
    connections: BTreeMap<u32, Orphan>,
}

/// Whose a datagram is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Addressee {
    One(u16),
    /// It names nobody; who knows it takes it.
    All,
    Nobody,
}

impl Members {
    /// None yet. `seed` varies numbers and ports from keeper to keeper.
    pub(super) fn new(seed: u16) -> Members {
        Members {
            ports: Ports::new(seed),
            by_number: BTreeMap::new(),
            requests: BTreeMap::new(),
            order: VecDeque::new(),
            next: seed % NUMBERS,
        }
    }

    /// Takes a process in, with the number it had or a new one; the number and the process's end of the socket.
    pub(super) fn join(&mut self, wanted: u16) -> Result<(u16, OwnedFd), KeeperError> {
        if self.by_number.len() >= MAX_MEMBERS {
            return Err(KeeperError::Refused { text: format!("{MAX_MEMBERS} processes manage connections") });
        }
        let number = match wanted {
            0 => self.free_number(),
            wanted if wanted < NUMBERS && !self.by_number.contains_key(&wanted) => wanted,
            wanted => {
                return Err(KeeperError::Refused { text: format!("number {wanted} is another process's") });
            }
        };
        let failed = |source| KeeperError::System { step: "socketpair", source };
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        theirs.set_nonblocking(true).map_err(failed)?;
        let member = Member { socket: ours.into(), waiting: VecDeque::new(), connections: BTreeMap::new() };
        self.by_number.insert(number, member);
        Ok((number, theirs.into()))
    }

    /// A process is gone; the connections that it leaves.
    pub(super) fn leave(&mut self, number: u16) -> Vec<Orphan> {
        self.ports.release_all(number);
        let member = self.by_number.remove(&number);
        member.map(|member| member.connections.into_values().collect()).unwrap_or_default()
    }

    /// The sockets to be read, with their numbers.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (u16, BorrowedFd<'_>)> {
        self.by_number.iter().map(|(number, member)| (*number, member.socket.as_fd()))
    }

    /// Takes what a process says, a bounded part of it: the datagrams to send. Whether there was something.
    pub(super) fn receive(&mut self, number: u16, datagrams: &mut Vec<(Route, Box<Mad>)>) -> bool {
        let Some(member) = self.by_number.get_mut(&number) else { return false };
        let mut bytes = [0; RECORD_LEN];
        for taken in 0..RECORDS_PER_ROUND {
            let Ok((len, _)) = fd_passing::receive(&member.socket, &mut bytes) else { return taken > 0 };
            match GsiRecord::decode(&bytes[..len]) {
                Some(GsiRecord::Mad { route, mad }) => datagrams.push((route, mad)),
                Some(GsiRecord::Connected(orphan)) => {
                    if member.connections.len() < ferroce_cm::limits::MAX_CONNECTIONS {
                        member.connections.insert(orphan.local_comm_id, orphan);
                    }
                }
                Some(GsiRecord::Ended { local_comm_id }) => {
                    member.connections.remove(&local_comm_id);
                }
                // Its end: the control connection tells, too.
                None => return taken > 0,
            }
        }
        true
    }

    /// Gives a datagram to whom it belongs; back it comes if that is nobody.
    pub(super) fn deliver(&mut self, route: Route, mad: Box<Mad>) -> Option<Box<Mad>> {
        match self.addressee(&route, &mad) {
            Addressee::One(number) => match self.by_number.get_mut(&number) {
                Some(member) => {
                    member.give(GsiRecord::Mad { route, mad });
                    None
                }
                None => Some(mad),
            },
            Addressee::All => {
                for member in self.by_number.values_mut() {
                    member.give(GsiRecord::Mad { route, mad: mad.clone() });
                }
                None
            }
            Addressee::Nobody => Some(mad),
        }
    }

    /// Tries again what had no room; whether some still waits.
    pub(super) fn flush(&mut self) -> bool {
        self.by_number.values_mut().filter_map(|member| member.flush().then_some(())).count() > 0
    }

    /// Whether somebody listened less than `span` ago on the service that a request wants.
    pub(super) fn was_served(&self, mad: &Mad, span: Duration) -> bool {
        match Message::parse(mad) {
            Ok(Message::Req(req)) => self.ports.was_served(req.service_id(), span),
            Ok(Message::SidrReq(req)) => self.ports.was_served(req.service_id(), span),
            _ => false,
        }
    }

    fn addressee(&mut self, route: &Route, mad: &Mad) -> Addressee {
        let Ok(message) = Message::parse(mad) else { return Addressee::Nobody };
        let ours = match message {
            Message::Req(req) => {
                let key = (req.local_ca_guid(), req.local_comm_id());
                return self.of_request(key, req.service_id(), req.private_data(), route);
            }
            Message::SidrReq(req) => {
                let found = self
                    .ports
                    .listener(req.service_id(), destination(route, req.service_id(), req.private_data()));
                return found.map_or(Addressee::Nobody, Addressee::One);
            }
            Message::Mra(mra) => mra.remote_comm_id(),
            Message::Rej(rej) => rej.remote_comm_id(),
            Message::Rep(rep) => rep.remote_comm_id(),
            Message::Rtu(rtu) => rtu.remote_comm_id(),
            Message::Dreq(dreq) => dreq.remote_comm_id(),
            Message::Drep(drep) => drep.remote_comm_id(),
            Message::SidrRep(rep) => rep.request_id(),
            Message::Lap(lap) => lap.remote_comm_id(),
            Message::Apr(apr) => apr.remote_comm_id(),
        };
        match ours {
            0 => Addressee::All,
            ours => Addressee::One((ours >> COMM_ID_BITS) as u16),
        }
    }

    fn of_request(
        &mut self,
        key: (u64, u32),
        service: ServiceId,
        private_data: &[u8],
        route: &Route,
    ) -> Addressee {
        if let Some(number) = self.requests.get(&key).filter(|number| self.by_number.contains_key(number)) {
            return Addressee::One(*number);
        }
        let Some(number) = self.ports.listener(service, destination(route, service, private_data)) else {
            return Addressee::Nobody;
        };
        if self.requests.insert(key, number).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REQUESTS_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.requests.remove(&oldest);
        }
        Addressee::One(number)
    }

    fn free_number(&mut self) -> u16 {
        // Ends: there are fewer members than numbers.
        loop {
            self.next = if self.next + 1 >= NUMBERS { 1 } else { self.next + 1 };
            if !self.by_number.contains_key(&self.next) {
                return self.next;
            }
        }
    }
}

impl Member {
    fn give(&mut self, record: GsiRecord) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(record);
        } else {
            tracing::debug!("a process does not take its datagrams: one was dropped");
        }
        self.flush();
    }

    /// Whether some records still wait.
    fn flush(&mut self) -> bool {
        while let Some(record) = self.waiting.front() {
            match fd_passing::send(&self.socket, &record.encode(), &[]) {
                Ok(_) => drop(self.waiting.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // Its end: nobody will take them.
                Err(_) => self.waiting.clear(),
            }
        }
        false
    }
}

/// At which address of ours a service is wanted.
fn destination(route: &Route, service: ServiceId, private_data: &[u8]) -> IpAddr {
    let header = CmaHeader::parse(private_data).ok().filter(|_| ListenAddr::has_ip_header(service));
    header.map_or(route.local, |(header, _)| header.destination())
}

/// Numbers of members are 12 bits wide, and 0 is nobody's.
const NUMBERS: u16 = 1 << (u32::BITS - COMM_ID_BITS);
/// Records taken from one process before others have their turn; all of a round must find room in the socket of QP 1.
const RECORDS_PER_ROUND: usize = 32;
/// Datagrams kept for a process that does not take them at once.
const WAITING_MAX: usize = 8_192;
/// Requests of which it is known who got them.
const REQUESTS_KEPT: usize = 16_384;
