//! The sockets that share the port, one per slot, and who has which.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use ferroce_port::holder::{BoundSocket, bound_sockets};
use ferroce_port::process::effective_uid;
use ferroce_port::{Sharing, open_receive_socket, steer_by_qpn};
use socket2::{SockRef, Type};

use crate::board::Board;
use crate::owner::{Owner, is_alive};
use crate::protocol::SOCKETS_PER_MESSAGE;
use crate::{KeeperError, SLOTS};

/// The reuseport group. A socket's index in the kernel's group is its index here: sockets are opened in order and none
/// is ever closed, because the kernel fills the gap of a closed one with the last.
#[derive(Debug)]
pub(crate) struct Group {
    port: u16,
    board: Board,
    slots: Vec<Slot>,
    /// Counts releases, to tell which free slot has rested longest.
    releases: u64,
    /// All sockets of the kernel's group were ours at some time; until then it must not grow.
    is_complete: bool,
}

#[derive(Debug)]
struct Slot {
    socket: OwnedFd,
    state: SlotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    /// Nobody's, since the release of that number; 0: never anybody's.
    Free { released: u64 },
    /// A client that is connected has it; slot 0 is the keeper's own.
    Held,
    /// An earlier keeper granted it, and its owner has not reported to us yet.
    Unreported,
}

impl Group {
    /// A new group whose first socket, ours alone so far, is `first`.
    pub(crate) fn new(port: u16, first: OwnedFd) -> Result<Group, KeeperError> {
        // Set after bind, so that the bind has proved that nobody else is there. From now on others of our user may
        // join; the kernel makes the group when the second does, with this one as index 0.
        SockRef::from(&first)
            .set_reuse_port(true)
            .map_err(|source| KeeperError::System { step: "SO_REUSEPORT", source })?;
        let mut group = Group::from_board(port, Board::create()?);
        group.is_complete = true;
        group.push(first);
        Ok(group)
    }

    /// The group of an earlier keeper, by its board, with no sockets yet.
    pub(crate) fn from_board(port: u16, board: Board) -> Group {
        Group { port, board, slots: Vec::new(), releases: 0, is_complete: false }
    }

    /// Whether `fd` is this group's board.
    pub(crate) fn has_board(&self, fd: BorrowedFd<'_>) -> bool {
        matches!((identity(fd), identity(self.board.as_fd())), (Ok(theirs), Ok(ours)) if theirs == ours)
    }

    /// The board's descriptor.
    pub(crate) fn board_fd(&self) -> BorrowedFd<'_> {
        self.board.as_fd()
    }

    /// The sockets of the slots `first..first + count`; `None` when there are not so many.
    pub(crate) fn sockets(&self, first: u8, count: u8) -> Option<Vec<BorrowedFd<'_>>> {
        let range = usize::from(first)..usize::from(first) + usize::from(count);
        Some(self.slots.get(range)?.iter().map(|slot| slot.socket.as_fd()).collect())
    }

    /// Whether we have all sockets of the kernel's group; never of an earlier keeper's where /proc does not list them.
    pub(crate) fn check_complete(&mut self) -> bool {
        self.is_complete |= !self.slots.is_empty() && self.bound() == self.slots.len();
        self.is_complete
    }

    /// Whether we have no socket at all yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Gives a free slot to the process `pid`: of those that were opened the one that has rested longest, so that
    /// packets for a process that has just ended meet nobody, else a new one.
    pub(crate) fn grant(&mut self, pid: u32) -> Result<(u8, u64), KeeperError> {
        self.release_unreported_dead();
        let slot = match self.longest_free() {
            Some(slot) => slot,
            None => self.grow()?,
        };
        drain(&self.slots[slot].socket);
        self.slots[slot].state = SlotState::Held;
        let record = self.board.slot(slot).expect("the group has no more slots than the board");
        record.grant(&Owner::from_now(pid));
        Ok((slot_number(slot), record.generation()))
    }

    /// Takes back the slot of a client that has gone.
    pub(crate) fn release(&mut self, slot: u8) {
        let Some(entry) = self.slots.get_mut(usize::from(slot)) else { return };
        self.releases += 1;
        entry.state = SlotState::Free { released: self.releases };
        if let Some(record) = self.board.slot(slot.into()) {
            record.clear();
        }
        // What lies there serves nobody and holds the kernel's memory.
        drain(&entry.socket);
    }

    /// The sockets still needed from a client that holds those up to `slot`: the first and how many.
    pub(crate) fn wanted_up_to(&self, slot: u8) -> Option<(u8, u8)> {
        let first = u8::try_from(self.slots.len()).ok().filter(|&first| first <= slot)?;
        Some((first, (slot - first).saturating_add(1).min(SOCKETS_PER_MESSAGE)))
    }

    /// Takes over sockets of an earlier keeper's group, `first` being the slot of the first of them. Those that we have
    /// already are dropped.
    pub(crate) fn adopt(&mut self, first: u8, sockets: Vec<OwnedFd>) -> Result<(), KeeperError> {
        for (index, socket) in (usize::from(first)..SLOTS).zip(sockets) {
            if index < self.slots.len() {
                continue;
            }
            if index > self.slots.len() || !self.is_of_port(&socket) {
                let text = format!("the socket offered for slot {index} does not belong there");
                return Err(KeeperError::Refused { text });
            }
            self.push(socket);
        }
        self.steer()
    }

    /// Gives `slot` back to the process that had it from an earlier keeper, in that generation.
    pub(crate) fn reclaim(&mut self, slot: u8, generation: u64, pid: u32) -> Result<(), KeeperError> {
        let index = usize::from(slot);
        let record = self.board.slot(index).expect("the board has a record for every u8");
        // Slot 0 is never granted, so it is Held from its start.
        match self.slots.get_mut(index).filter(|entry| entry.state != SlotState::Held) {
            Some(entry) if record.generation() == generation => {
                entry.state = SlotState::Held;
                record.name_owner(&Owner::from_now(pid));
                Ok(())
            }
            _ => Err(KeeperError::SlotLost { slot }),
        }
    }

    /// Appends the socket of the next slot; whether somebody has that, the board knows.
    fn push(&mut self, socket: OwnedFd) {
        let index = self.slots.len();
        let record = self.board.slot(index).expect("callers check against the number of slots");
        let state = if index == 0 {
            record.name_owner(&Owner::from_now(std::process::id()));
            SlotState::Held
        } else if record.owner() != 0 {
            SlotState::Unreported
        } else {
            SlotState::Free { released: 0 }
        };
        self.slots.push(Slot { socket, state });
    }

    fn grow(&mut self) -> Result<usize, KeeperError> {
        let index = self.slots.len();
        if index == SLOTS {
            return Err(KeeperError::NoSlotFree);
        }
        // A socket that we do not have sits at the index that we would take for the new one's.
        let bound = self.bound();
        if bound > index || !self.check_complete() {
            let detail =
                format!("{bound} sockets are bound to UDP port {}, {index} of them are known", self.port);
            return Err(KeeperError::GroupIncomplete { detail });
        }
        let socket = open_receive_socket(self.port, Sharing::Group)?;
        self.push(socket);
        if let Err(error) = self.steer() {
            // The last of a group leaves no gap.
            self.slots.pop();
            return Err(error);
        }
        tracing::info!(slot = index, "opened a slot");
        Ok(index)
    }

    /// Attaches the program anew for the number of sockets there are.
    fn steer(&self) -> Result<(), KeeperError> {
        // The kernel makes the group when the second socket comes; a lone one gets everything anyway.
        let [any, _, ..] = &self.slots[..] else { return Ok(()) };
        let count = u16::try_from(self.slots.len()).expect("at most 256");
        steer_by_qpn(&any.socket, count)
            .map_err(|source| KeeperError::System { step: "attaching the steering program", source })
    }

    fn longest_free(&self) -> Option<usize> {
        let free = self.slots.iter().enumerate().filter_map(|(index, slot)| match slot.state {
            SlotState::Free { released } => Some((released, index)),
            SlotState::Held | SlotState::Unreported => None,
        });
        free.min().map(|(_, index)| index)
    }

    /// Processes that had a slot from an earlier keeper and have died since will never report.
    fn release_unreported_dead(&mut self) {
        for index in 1..self.slots.len() {
            let owner = self.board.slot(index).map_or(0, |record| record.owner());
            if self.slots[index].state == SlotState::Unreported && !is_alive(owner) {
                tracing::info!(slot = index, pid = owner, "the owner died while there was no keeper");
                self.release(slot_number(index));
            }
        }
    }

    /// Sockets of our user bound to the port of all addresses, which are those that can be in our group.
    fn bound(&self) -> usize {
        let ours = effective_uid();
        let is_of_group = |socket: &BoundSocket| socket.uid == ours && socket.address.is_unspecified();
        bound_sockets(self.port).iter().filter(|socket| is_of_group(socket)).count()
    }

    fn is_of_port(&self, socket: &OwnedFd) -> bool {
        let socket = SockRef::from(socket);
        let port = socket.local_addr().ok().and_then(|address| Some(address.as_socket()?.port()));
        port == Some(self.port) && socket.r#type().is_ok_and(|kind| kind == Type::DGRAM)
    }
}

/// Throws away what waits in a socket. Bounded: somebody may be sending all the time.
fn drain(socket: &OwnedFd) {
    let socket = SockRef::from(socket);
    let mut room = [MaybeUninit::uninit(); 1];
    for _ in 0..DRAIN_MAX {
        // The sockets are non-blocking; a packet too long for the room is taken off whole (udp(7)).
        match socket.recv(&mut room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            // A packet, or an error that the socket reports once.
            Ok(_) | Err(_) => {}
        }
    }
}

/// Packets thrown away at once: about as many as a receive buffer holds.
const DRAIN_MAX: usize = 1 << 16;

/// What tells one memfd from another.
fn identity(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let file = File::from(fd.try_clone_to_owned()?).metadata()?;
    Ok((file.dev(), file.ino()))
}

fn slot_number(index: usize) -> u8 {
    u8::try_from(index).expect("the group has at most 256 sockets")
}
