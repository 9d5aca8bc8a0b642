//! Memory windows of type 2: an end binds one, its peer uses it, and either takes it back.
//!
//! An end hands its peer the key when the bind is complete, as applications do. From when somebody begins to take it
//! back, nobody uses it until that is over; then its key must lead nowhere.

use super::ends::{End, Message};
use super::ledger::Place;
use super::plan::{Op, Service};
use super::world::World;
use ferroce_core::{AccessFlags, MwBind, MwType, RegionKeys, SendOp};

/// A window of an end, bound through its QP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Its R_Key; of a bind under way, the one that it will have.
    pub(super) rkey: u32,
    /// What it is bound to.
    range: Place,
    /// Bytes of it that messages have used up.
    used: u32,
    state: WindowState,
}

/// How far a window is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WindowState {
    /// A bind was posted.
    Binding,
    Bound,
    /// Somebody takes it back, or its QP is not what it was.
    Doubtful,
    /// Its key leads nowhere.
    Gone,
}

impl World {
    /// The window that a send work request is about: its key, after what that makes of the window.
    pub(super) fn window_for(&mut self, index: usize, op: Op) -> Option<u32> {
        match op {
            Op::Bind => self.begin_bind(index),
            Op::LocalInvalidate => {
                let window = find(&mut self.ends[index], WindowState::Bound)?;
                window.state = WindowState::Doubtful;
                let rkey = window.rkey;
                // What the peer has under way through it fails, or not.
                self.connection_mut(index).lost_memory = true;
                self.is_calm = false;
                Some(rkey)
            }
            Op::SendInvalidate => {
                let peer = self.peer(index);
                let window = find(&mut self.ends[peer], WindowState::Bound)?;
                window.state = WindowState::Doubtful;
                Some(window.rkey)
            }
            _ => None,
        }
    }

    /// A window to be bound: one whose key was taken back, with the next key, or a new one.
    fn begin_bind(&mut self, index: usize) -> Option<u32> {
        let End { host, pd, .. } = self.ends[index];
        let range = self.place(host, (pd, BINDABLE), WINDOW_LEN);
        let again = find(&mut self.ends[index], WindowState::Gone).map(|window| {
            let next = (window.rkey as u8).wrapping_add(1);
            window.rkey & !0xff | u32::from(next)
        });
        let rkey = match again {
            Some(rkey) => {
                self.ends[index].windows.retain(|window| window.rkey >> 8 != rkey >> 8);
                rkey
            }
            None if self.ends[index].windows.len() >= MAX_WINDOWS => return None,
            None => {
                let id = self.hosts[host].id;
                let made = self.fabric.network.call(id, |device, _, _| device.alloc_mw(pd, MwType::Type2));
                made.expect("a card has more windows than a plan")
            }
        };
        self.ends[index].windows.push(Window { rkey, range, used: 0, state: WindowState::Binding });
        Some(rkey)
    }

    /// The operation of a message that is about a window.
    pub(super) fn window_op(&self, index: usize, message: &Message) -> Option<SendOp> {
        let rkey = message.key;
        Some(match message.op {
            Op::Bind => {
                let window = self.ends[index].windows.iter().find(|window| window.rkey == rkey)?;
                let Place { addr, len, keys, .. } = window.range;
                let bind = MwBind { lkey: keys.lkey, addr, length: len.into(), access: WINDOW_ACCESS };
                SendOp::BindMw { rkey, bind }
            }
            Op::LocalInvalidate => SendOp::LocalInv { rkey },
            Op::SendInvalidate => SendOp::SendInv { rkey },
            _ => return None,
        })
    }

    /// Room for a message of an end in a window of its peer, if that has one that it may use.
    pub(super) fn room_in_window(&mut self, index: usize, len: u32) -> Option<Place> {
        let peer = self.peer(index);
        let end = &mut self.ends[peer];
        if end.service != Service::Rc || !end.exists {
            return None;
        }
        let window = find(end, WindowState::Bound)?;
        // A byte that belongs to nobody lies behind each place.
        let used = window.used;
        let next = used + (len + 1).next_multiple_of(8);
        if next > window.range.len {
            return None;
        }
        window.used = next;
        let Place { addr, keys, .. } = window.range;
        let keys = RegionKeys { rkey: window.rkey, ..keys };
        Some(Place {
            addr: addr + u64::from(used),
            len,
            keys,
            region_end: addr + u64::from(window.range.len),
        })
    }

    /// Memory that an end's peer once let it use, through a window that is gone.
    pub(super) fn room_nowhere(&mut self, index: usize, len: u32) -> Option<Place> {
        let peer = self.peer(index);
        let window = find(&mut self.ends[peer], WindowState::Gone)?;
        let Place { addr, keys, .. } = window.range;
        let keys = RegionKeys { rkey: window.rkey, ..keys };
        (len <= window.range.len).then_some(Place { addr, len, keys, region_end: addr + u64::from(len) })
    }

    /// A bind or a local invalidation succeeded.
    pub(super) fn window_changed(&mut self, index: usize, message: &Message) {
        let state = if message.op == Op::Bind { WindowState::Bound } else { WindowState::Gone };
        self.set_window(index, message.key, state);
    }

    /// A message arrived that took a window back.
    pub(super) fn window_taken(&mut self, index: usize, rkey: u32) {
        self.set_window(index, rkey, WindowState::Gone);
    }

    fn set_window(&mut self, index: usize, rkey: u32, state: WindowState) {
        let window = self.ends[index].windows.iter_mut().find(|window| window.rkey == rkey);
        if let Some(window) = window {
            window.state = state;
        }
    }
}

impl End {
    /// Its QP leaves the states in which it keeps what it has: nobody counts on its windows any more.
    pub(super) fn doubt_windows(&mut self) {
        for window in &mut self.windows {
            window.state = WindowState::Doubtful;
        }
    }
}

fn find(end: &mut End, state: WindowState) -> Option<&mut Window> {
    end.windows.iter_mut().find(|window| window.state == state)
}

/// Rights of the region behind windows: its own key gives a peer nothing.
const BINDABLE: AccessFlags = AccessFlags::LOCAL_WRITE.union(AccessFlags::MW_BIND);
/// Rights of a window.
const WINDOW_ACCESS: AccessFlags = AccessFlags::REMOTE_WRITE.union(AccessFlags::REMOTE_READ);
/// Bytes of a window.
const WINDOW_LEN: u32 = 64 << 10;
/// Windows of an end.
const MAX_WINDOWS: usize = 4;
