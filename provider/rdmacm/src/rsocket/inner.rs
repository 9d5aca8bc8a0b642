//! The inside of a socket: where it is, and what can be done without waiting.

use super::descriptors;
use super::options::Options;
use super::stream::{End, Stream};
use super::wire::ConnData;
use crate::layout::{RdmaCmId, RdmaConnParam};
use crate::{connect, event, id};
use ferroce_abi::errno::Errno;
use ferroce_abi::pointer;
use libc::{c_int, sockaddr};
use std::ptr::null;

/// What only the holder of the lock touches.
pub(super) struct Inner {
    pub(super) id: *mut RdmaCmId,
    pub(super) phase: Phase,
    pub(super) options: Options,
    /// SO_ERROR.
    pub(super) error: c_int,
    pub(super) stream: Option<Stream>,
    /// Whether somebody waits at the descriptors, so that the events are left to them.
    pub(super) is_watched: bool,
}

/// Where a socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Idle,
    Listening,
    Connecting,
    /// Connected, if the peer agrees.
    Accepting,
    Connected,
    /// It could not be connected.
    Failed(c_int),
}

// SAFETY: the pointer is to an ID of its own, which may be used by every thread, one at a time.
unsafe impl Send for Inner {}

impl Inner {
    /// # Safety
    /// The C contract.
    pub(super) unsafe fn start_to_connect(&mut self, addr: *const sockaddr) -> Result<(), Errno> {
        // SAFETY: the socket's own ID, and the C contract.
        unsafe { id::resolve_addr(self.id, null(), addr) }?;
        // SAFETY: the socket's own ID.
        unsafe { id::resolve_route(self.id) }?;
        // SAFETY: as above.
        let stream = unsafe { Stream::new(self.id, &self.options) }?;
        let ours = stream.conn_data().to_bytes();
        self.stream = Some(stream);
        let mut param = param(&ours);
        // SAFETY: as above, and parameters of ours.
        match unsafe { connect::connect(self.id, &raw mut param) } {
            Ok(()) | Err(Errno(libc::EAGAIN)) => {
                self.phase = Phase::Connecting;
                Ok(())
            }
            Err(errno) => {
                self.stream = None;
                Err(errno)
            }
        }
    }

    /// Does what can be done without waiting.
    pub(super) fn progress(&mut self) {
        match self.phase {
            // SAFETY: the socket's own ID.
            Phase::Connecting | Phase::Accepting => match unsafe { event::complete(self.id) } {
                Ok(()) => self.established(),
                Err(Errno(libc::EAGAIN)) => {}
                Err(errno) => self.fail(errno.0),
            },
            Phase::Connected => {
                let hears_end = self.stream.as_ref().is_some_and(|stream| stream.end().is_none());
                // SAFETY: the socket's own ID.
                let has_ended =
                    hears_end && !matches!(unsafe { event::complete(self.id) }, Err(Errno(libc::EAGAIN)));
                if let Some(stream) = &mut self.stream {
                    stream.process();
                    // The peer's process is gone, or the connection is. What it wrote before has been taken.
                    if has_ended && stream.end().is_none() {
                        stream.finish(End::Broken);
                    }
                }
            }
            Phase::Idle | Phase::Listening | Phase::Failed(_) => {}
        }
    }

    /// Something that changes when [`Inner::progress`] does anything.
    pub(super) fn progress_so_far(&self) -> (Phase, Option<(u64, Option<End>)>) {
        (self.phase, self.stream.as_ref().map(|stream| (stream.completed(), stream.end())))
    }

    /// The peer agrees.
    fn established(&mut self) {
        if self.phase == Phase::Connecting {
            // SAFETY: the socket's own ID.
            let data = unsafe { conn_data(self.id) };
            match (data, &mut self.stream) {
                (Some(data), Some(stream)) => stream.meet(&data),
                _ => return self.fail(libc::EPROTO),
            }
        }
        self.phase = Phase::Connected;
        if let Some(stream) = &mut self.stream {
            stream.process();
        }
    }

    fn fail(&mut self, errno: c_int) {
        self.phase = Phase::Failed(errno);
        self.error = errno;
    }

    /// The stream, once it is connected; nothing while it is being connected.
    pub(super) fn connected(&mut self) -> Result<Option<&mut Stream>, Errno> {
        match self.phase {
            Phase::Connected => Ok(self.stream.as_mut()),
            Phase::Connecting | Phase::Accepting => Ok(None),
            Phase::Failed(errno) => Err(Errno(errno)),
            Phase::Idle | Phase::Listening => Err(Errno(libc::ENOTCONN)),
        }
    }

    pub(super) fn is_connected(&mut self) -> Result<Option<()>, Errno> {
        Ok(self.connected()?.map(|_| ()))
    }

    /// Asks for something to be readable when [`Inner::progress`] has something to do.
    pub(super) fn arm(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.arm();
        }
    }

    /// The descriptors to wait at: that of the ID, and that of its completions (-1 for none).
    pub(super) fn fds(&self) -> [c_int; 2] {
        // SAFETY: the socket's own ID, with a channel of its own.
        let channel = unsafe { (*self.id).channel };
        // SAFETY: as above.
        let id = unsafe { (*channel).fd };
        [id, self.stream.as_ref().map_or(-1, Stream::fd)]
    }

    /// What poll(2) would say of `events`.
    pub(super) fn ready(&mut self, events: i16) -> i16 {
        self.progress();
        let both = events & (libc::POLLIN | libc::POLLOUT);
        match (self.phase, &self.stream) {
            (Phase::Connected, Some(stream)) => {
                let mut ready = 0;
                if stream.has_data() {
                    ready |= events & libc::POLLIN;
                }
                if stream.can_send() {
                    ready |= events & libc::POLLOUT;
                }
                match stream.end() {
                    // Programs take it for an error; what came before the end comes first.
                    Some(_) if ready & libc::POLLIN != 0 && stream.unread() > 0 => ready,
                    Some(End::Closed) => ready | libc::POLLHUP,
                    Some(End::Broken) => ready | both | libc::POLLERR,
                    None => ready,
                }
            }
            (Phase::Failed(_), _) => both | libc::POLLERR,
            (Phase::Listening, _) if descriptors::is_readable(self.fds()[0]) => events & libc::POLLIN,
            _ => 0,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stream = None;
        // SAFETY: the socket's own ID, which nobody uses any more.
        let _gone = unsafe { id::destroy_with_all(self.id) };
    }
}

/// What the peer has said in the event that an ID holds.
///
/// # Safety
/// An ID of a socket.
pub(super) unsafe fn conn_data(id: *mut RdmaCmId) -> Option<ConnData> {
    // SAFETY: the caller's promise.
    let event = unsafe { (*id).event };
    // SAFETY: null, or an event that the ID holds.
    let event = unsafe { pointer::borrow(event) }.ok()?;
    // SAFETY: events of a connection have these parameters.
    let conn = unsafe { event.param.conn };
    // SAFETY: the event's own bytes.
    let bytes =
        unsafe { pointer::borrow_slice(conn.private_data.cast::<u8>(), conn.private_data_len.into()) }
            .ok()?;
    ConnData::from_bytes(bytes)
}

pub(super) fn param(data: &[u8; ConnData::LEN]) -> RdmaConnParam {
    RdmaConnParam {
        private_data: data.as_ptr().cast(),
        private_data_len: data.len() as u8,
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    }
}
