//! A socket, from its making to its end: calls, and how they wait.

use super::inner::{Inner, Phase, conn_data, param};
use super::iomap::Mappings;
use super::memory::{LOCAL_WRITE, REMOTE_WRITE, Registration};
use super::options::Options;
use super::stream::{End, Stream};
use super::wire::Message;
use super::{descriptors, table};
use crate::device::last_error;
use crate::ibv::qp_type;
use crate::layout::RdmaCmId;
use crate::{connect, endpoint, id};
use ferroce::cm::PortSpace;
use ferroce_abi::errno::Errno;
use libc::{c_int, c_void, sockaddr, sockaddr_storage};
use parking_lot::{Condvar, Mutex};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A socket.
pub(super) struct Socket {
    fd: c_int,
    is_nonblocking: AtomicBool,
    inner: Mutex<Inner>,
    /// Somebody has worked on it. Of those who wait one waits at the descriptors, the others for this, since what another
    /// thread takes off the CQ may be what they wait for.
    changed: Condvar,
}

impl Socket {
    /// A new one.
    pub(super) fn new() -> Result<Socket, Errno> {
        // SAFETY: a null pointer asks for a channel of its own.
        let id = unsafe { id::create(null_mut(), null_mut(), PortSpace::Tcp as u32, qp_type::RC) }?;
        Socket::of(id, Options::default())
    }

    fn of(id: *mut RdmaCmId, options: Options) -> Result<Socket, Errno> {
        // SAFETY: just made, with a channel of its own.
        let channel = unsafe { (*id).channel };
        // SAFETY: as above.
        let fd = unsafe { (*channel).fd };
        // Who waits does so at the descriptor.
        // SAFETY: changing a descriptor's flags touches no memory.
        if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
            let errno = last_error();
            // SAFETY: just made, and nobody else has it.
            let _gone = unsafe { id::destroy_with_all(id) };
            return Err(errno);
        }
        let inner = Inner { id, phase: Phase::Idle, options, error: 0, stream: None, is_watched: false };
        Ok(Socket {
            fd,
            is_nonblocking: AtomicBool::new(false),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        })
    }

    pub(super) fn fd(&self) -> c_int {
        self.fd
    }

    pub(super) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::Relaxed)
    }

    pub(super) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
    }

    /// Works on it.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        let result = work(&mut self.inner.lock());
        self.changed.notify_all();
        result
    }

    /// Works on it until there is a result, waiting for the peer in between; without waiting EAGAIN.
    pub(super) fn until<T>(
        &self,
        waits: bool,
        mut work: impl FnMut(&mut Inner) -> Option<Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let spins_until = Instant::now() + POLLING_TIME;
        loop {
            let fds = {
                let mut inner = self.inner.lock();
                let mut result = self.attempt(&mut inner, &mut work);
                if result.is_none() && waits && Instant::now() >= spins_until {
                    if inner.is_watched {
                        self.changed.wait(&mut inner);
                        continue;
                    }
                    inner.arm();
                    result = self.attempt(&mut inner, &mut work);
                    inner.is_watched = result.is_none();
                }
                match result {
                    Some(result) => return result,
                    None if !waits => return Err(Errno(libc::EAGAIN)),
                    None if !inner.is_watched => continue,
                    None => inner.fds(),
                }
            };
            let waited = descriptors::wait(fds);
            self.inner.lock().is_watched = false;
            self.look();
            waited?;
        }
    }

    /// Takes what has come, and works on it; those who wait try again if that may have changed something for them.
    fn attempt<T>(
        &self,
        inner: &mut Inner,
        work: &mut impl FnMut(&mut Inner) -> Option<Result<T, Errno>>,
    ) -> Option<Result<T, Errno>> {
        let before = inner.progress_so_far();
        inner.progress();
        let result = work(inner);
        if result.is_some() || inner.progress_so_far() != before {
            self.changed.notify_all();
        }
        result
    }

    /// Takes what has come, and the events that told of it unless somebody waits for them.
    pub(super) fn look(&self) {
        self.with(|inner| {
            if let Some(stream) = inner.stream.as_mut().filter(|_| !inner.is_watched) {
                stream.take_events();
            }
            inner.progress();
        });
    }

    /// Connects.
    ///
    /// # Safety
    /// The C contract.
    pub(super) unsafe fn connect(&self, addr: *const sockaddr) -> Result<(), Errno> {
        {
            let mut inner = self.inner.lock();
            inner.progress();
            match inner.phase {
                Phase::Idle => {
                    // SAFETY: the C contract.
                    unsafe { inner.start_to_connect(addr) }?;
                    if self.is_nonblocking() {
                        return Err(Errno(libc::EINPROGRESS));
                    }
                }
                Phase::Connecting if self.is_nonblocking() => return Err(Errno(libc::EALREADY)),
                Phase::Connecting => {}
                Phase::Connected => return Ok(()),
                Phase::Listening | Phase::Accepting => return Err(Errno(libc::EISCONN)),
                Phase::Failed(errno) => return Err(Errno(errno)),
            }
        }
        self.until(true, |inner| inner.is_connected().transpose())
    }

    /// Accepts a connection.
    pub(super) fn accept(&self) -> Result<Socket, Errno> {
        self.until(!self.is_nonblocking(), |inner| {
            if inner.phase != Phase::Listening {
                return Some(Err(Errno::INVALID));
            }
            loop {
                // SAFETY: the socket's own ID.
                match unsafe { endpoint::get_request(inner.id) } {
                    Ok(request) => match accepted(request, inner.options) {
                        Ok(socket) => return Some(Ok(socket)),
                        // That peer is refused, and the next one may be better.
                        Err(errno) => tracing::info!(errno = errno.0, "an rsocket's peer was refused"),
                    },
                    Err(Errno(libc::EAGAIN)) => return None,
                    Err(errno) => return Some(Err(errno)),
                }
            }
        })
    }

    /// Sends; in blocking mode all of it.
    ///
    /// # Safety
    /// The C contract: `from` is `length` readable bytes.
    pub(super) unsafe fn send(&self, from: *const u8, length: usize, flags: c_int) -> Result<usize, Errno> {
        // SAFETY: the C contract.
        self.push(length, flags, |stream, done| unsafe {
            stream.send(from.wrapping_add(done), length - done)
        })
    }

    /// Writes into what the peer has mapped at `offset`.
    ///
    /// # Safety
    /// The C contract: `from` is `length` readable bytes.
    pub(super) unsafe fn write_mapped(
        &self,
        from: *const u8,
        length: usize,
        offset: u64,
        flags: c_int,
    ) -> Result<usize, Errno> {
        self.push(length, flags, |stream, done| {
            let at = offset.wrapping_add(done as u64);
            // SAFETY: the C contract.
            unsafe { stream.write_mapped(from.wrapping_add(done), length - done, at) }
        })
    }

    fn push(
        &self,
        length: usize,
        flags: c_int,
        mut write: impl FnMut(&mut Stream, usize) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let waits = !self.is_nonblocking() && flags & libc::MSG_DONTWAIT == 0;
        let mut done = 0;
        let result = self.until(waits, |inner| {
            let stream = match inner.connected() {
                Ok(Some(stream)) => stream,
                Ok(None) => return None,
                Err(errno) => return Some(Err(errno)),
            };
            if !stream.is_writable() {
                return Some(Err(Errno(libc::EPIPE)));
            }
            if let Err(errno) = stream.tell_mappings() {
                return Some(Err(errno));
            }
            if stream.mappings.has_news() {
                return None;
            }
            match write(stream, done) {
                Ok(count) => done += count,
                Err(errno) => return Some(Err(errno)),
            }
            (done == length).then_some(Ok(()))
        });
        match result {
            Ok(()) => Ok(done),
            Err(_) if done > 0 => Ok(done),
            Err(Errno(libc::EPIPE)) => Err(Errno(libc::ECONNRESET)),
            Err(errno) => Err(errno),
        }
    }

    /// Receives what there is; 0 when no more will come.
    ///
    /// # Safety
    /// The C contract: `to` is room for `length` bytes.
    pub(super) unsafe fn receive(&self, to: *mut u8, length: usize, flags: c_int) -> Result<usize, Errno> {
        let waits = !self.is_nonblocking() && flags & libc::MSG_DONTWAIT == 0;
        let peeks = flags & libc::MSG_PEEK != 0;
        let wants_all = flags & libc::MSG_WAITALL != 0 && !peeks;
        let mut done = 0;
        let result = self.until(waits, |inner| {
            let stream = match inner.connected() {
                Ok(Some(stream)) => stream,
                Ok(None) => return None,
                Err(errno) => return Some(Err(errno)),
            };
            if !stream.has_data() {
                return None;
            }
            // SAFETY: the C contract.
            done += unsafe { stream.receive(to.wrapping_add(done), length - done, peeks) };
            let is_over = stream.unread() == 0 && !stream.directions().0;
            if done == 0 && stream.end() == Some(End::Broken) {
                return Some(Err(Errno(libc::ECONNRESET)));
            }
            // What was read makes room, of which the peer is told.
            stream.process();
            (!wants_all || done == length || is_over).then_some(Ok(()))
        });
        match result {
            Ok(()) => Ok(done),
            Err(_) if done > 0 => Ok(done),
            Err(errno) => Err(errno),
        }
    }

    /// Ends one direction or both.
    pub(super) fn shut_down(&self, how: c_int) -> Result<(), Errno> {
        let message = self.with(|inner| {
            inner.progress();
            let Some(stream) = inner.connected()? else { return Err(Errno(libc::ENOTCONN)) };
            let (is_readable, is_writable) = stream.directions();
            let (message, after) = match how {
                libc::SHUT_RDWR => (Some(Message::Disconnect), (false, false)),
                libc::SHUT_WR if is_readable => (Some(Message::Shutdown), (true, false)),
                libc::SHUT_WR => (Some(Message::Disconnect), (false, false)),
                libc::SHUT_RD if is_writable => (None, (false, true)),
                libc::SHUT_RD => (Some(Message::Disconnect), (false, false)),
                _ => return Err(Errno::INVALID),
            };
            stream.set_directions(after.0, after.1);
            Ok(message)
        })?;
        if let Some(message) = message {
            self.until(true, |inner| match &mut inner.stream {
                Some(stream) => stream.close_direction(message).then_some(Ok(())),
                None => Some(Ok(())),
            })?;
        }
        self.until(true, |inner| match &inner.stream {
            Some(stream) => stream.is_drained().then_some(Ok(())),
            None => Some(Ok(())),
        })?;
        if message == Some(Message::Disconnect) {
            self.with(|inner| {
                if let Some(stream) = &mut inner.stream {
                    stream.finish(End::Closed);
                }
                // SAFETY: the socket's own ID. Nobody waits for the peer's answer.
                let _left = unsafe { connect::disconnect(inner.id) };
            });
        }
        Ok(())
    }

    /// Maps a buffer for the peer, or only registers it.
    ///
    /// # Safety
    /// The C contract.
    pub(super) unsafe fn map(
        &self,
        buf: *mut c_void,
        length: usize,
        prot: c_int,
        offset: i64,
    ) -> Result<i64, Errno> {
        if prot & !libc::PROT_WRITE != 0 {
            return Err(Errno::INVALID);
        }
        let is_remote = prot == libc::PROT_WRITE;
        let offset = if offset == -1 { buf.expose_provenance() as i64 } else { offset };
        self.until(true, |inner| {
            let id = inner.id;
            let stream = match inner.connected() {
                Ok(Some(stream)) => stream,
                Ok(None) => return None,
                Err(errno) => return Some(Err(errno)),
            };
            let room = is_remote.then(|| stream.peer.map_or(0, |peer| peer.iomap.length));
            let access = if is_remote { LOCAL_WRITE | REMOTE_WRITE } else { LOCAL_WRITE };
            let added = u32::try_from(length).map_err(|_| Errno::INVALID).and_then(|short| {
                // SAFETY: the socket's own ID.
                let pd = unsafe { (*id).pd };
                // SAFETY: the protection domain of the ID's device, which stays open.
                let registration = unsafe { Registration::new(pd, buf, length, access) }?;
                let addr = buf.expose_provenance() as u64;
                stream.mappings.add(registration, addr, short, offset as u64, room)
            });
            Some(added.map(|()| offset))
        })
    }

    /// Takes a mapping back.
    pub(super) fn unmap(&self, buf: *const c_void, length: usize) -> Result<(), Errno> {
        self.with(|inner| {
            let mappings: &mut Mappings = &mut inner.stream.as_mut().ok_or(Errno(libc::ENOTCONN))?.mappings;
            mappings.remove(buf, length)
        })
    }

    /// Its own address, or the peer's.
    pub(super) fn address(&self, is_peers: bool) -> Result<sockaddr_storage, Errno> {
        self.with(|inner| {
            // SAFETY: the socket's own ID.
            let addr = unsafe { (*inner.id).route.addr };
            if is_peers && addr.dst.ss_family == 0 {
                return Err(Errno(libc::ENOTCONN));
            }
            Ok(if is_peers { addr.dst } else { addr.src })
        })
    }
}

/// A socket of a request, with the peer told.
fn accepted(request: *mut RdmaCmId, options: Options) -> Result<Socket, Errno> {
    // SAFETY: a request's ID holds the event that brought it.
    let data = unsafe { conn_data(request) };
    let socket = Socket::of(request, options)?;
    socket.with(|inner| {
        let data = data.ok_or(Errno(libc::EPROTO))?;
        // SAFETY: the socket's own ID.
        let mut stream = unsafe { Stream::new(request, &options) }?;
        stream.meet(&data);
        let ours = stream.conn_data().to_bytes();
        inner.stream = Some(stream);
        let mut param = param(&ours);
        // SAFETY: the socket's own ID, and parameters of ours.
        inner.phase = match unsafe { connect::accept(request, &raw mut param) } {
            Ok(()) => Phase::Connected,
            Err(Errno(libc::EAGAIN)) => Phase::Accepting,
            Err(errno) => return Err(errno),
        };
        Ok(())
    })?;
    Ok(socket)
}

/// Closes a socket.
pub(super) fn close(fd: c_int) -> Result<(), Errno> {
    let socket = table::remove(fd)?;
    let is_connected = socket.with(|inner| {
        inner.progress();
        inner.phase == Phase::Connected
    });
    if is_connected {
        // One that has ended has nothing to say.
        let _ended = socket.shut_down(libc::SHUT_RDWR);
    }
    Ok(())
}

/// How long one looks before one waits, as librdmacm's `polling_time`.
const POLLING_TIME: Duration = Duration::from_micros(10);
