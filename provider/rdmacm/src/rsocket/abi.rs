//! The exported functions.

use super::inner::Phase;
use super::socket::{Socket, close};
use super::{options, poll, table};
use crate::id::{self, refresh};
use crate::{channel, connect};
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use libc::{
    c_int, c_void, fd_set, iovec, msghdr, nfds_t, off_t, pollfd, sockaddr, socklen_t, ssize_t, timeval,
};

fn long(result: Result<usize, Errno>) -> ssize_t {
    result.map_or_else(
        |errno| {
            errno.raise();
            -1
        },
        |count| count as ssize_t,
    )
}

fn number(result: Result<c_int, Errno>) -> c_int {
    ferroce_abi::errno::count(result)
}

#[unsafe(no_mangle)]
extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    number(make(domain, kind, protocol))
}

fn make(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Errno> {
    if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
    match kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
        libc::SOCK_STREAM if matches!(protocol, 0 | libc::IPPROTO_TCP) => {}
        libc::SOCK_STREAM | libc::SOCK_DGRAM => return Err(Errno(libc::EPROTONOSUPPORT)),
        _ => return Err(Errno(libc::ENOTSUP)),
    }
    channel::start();
    let socket = Socket::new()?;
    socket.set_nonblocking(nonblocking);
    Ok(table::insert(socket))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbind(socket: c_int, addr: *const sockaddr, _addrlen: socklen_t) -> c_int {
    minus_one(table::find(socket).and_then(|socket| {
        // SAFETY: the socket's own ID, and the C contract.
        socket.with(|inner| unsafe { id::bind(inner.id, addr) })
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    minus_one(table::find(socket).and_then(|socket| {
        socket.with(|inner| {
            if inner.phase == Phase::Idle {
                // SAFETY: the socket's own ID.
                unsafe { connect::listen(inner.id, backlog) }?;
                inner.phase = Phase::Listening;
                tracing::debug!(backlog, "an rsocket listens");
            }
            Ok(())
        })
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn raccept(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    number(table::find(socket).and_then(|listener| {
        let socket = listener.accept()?;
        if !addr.is_null() {
            // SAFETY: the C contract.
            unsafe { write_address(&socket, true, addr, addrlen) }?;
        }
        Ok(table::insert(socket))
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rconnect(socket: c_int, addr: *const sockaddr, _addrlen: socklen_t) -> c_int {
    minus_one(table::find(socket).and_then(|socket| {
        // SAFETY: the C contract.
        unsafe { socket.connect(addr) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    minus_one(table::find(socket).and_then(|socket| socket.shut_down(how)))
}

#[unsafe(no_mangle)]
extern "C" fn rclose(socket: c_int) -> c_int {
    minus_one(close(socket))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rrecv(socket: c_int, buf: *mut c_void, len: usize, flags: c_int) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { receive(socket, buf, len, flags) })
}

unsafe fn receive(socket: c_int, buf: *mut c_void, len: usize, flags: c_int) -> Result<usize, Errno> {
    let socket = table::find(socket)?;
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: the C contract.
    unsafe { socket.receive(buf.cast(), len, flags) }
}

/// A stream knows its peer: `src_addr` is left alone but for its length.
#[unsafe(no_mangle)]
unsafe extern "C" fn rrecvfrom(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    src_addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the C contract.
    let received = unsafe { receive(socket, buf, len, flags) };
    if received.is_ok()
        && !src_addr.is_null()
        && let Ok(socket) = table::find(socket)
    {
        // SAFETY: the C contract.
        let _optional = unsafe { write_address(&socket, true, src_addr, addrlen) };
    }
    long(received)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rread(socket: c_int, buf: *mut c_void, count: usize) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { receive(socket, buf, count, 0) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rreadv(socket: c_int, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { receive_all(socket, iov, usize::try_from(iovcnt).unwrap_or(usize::MAX), 0) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rrecvmsg(socket: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { pointer::read(msg) }.and_then(|msg| {
        // SAFETY: the C contract.
        unsafe { receive_all(socket, msg.msg_iov, msg.msg_iovlen, flags) }
    }))
}

/// Waits for the first bytes only.
unsafe fn receive_all(socket: c_int, iov: *const iovec, count: usize, flags: c_int) -> Result<usize, Errno> {
    if count > MAX_PIECES {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract.
    let pieces = unsafe { pointer::borrow_slice(iov, count) }?;
    let mut done = 0;
    for piece in pieces {
        let flags = if done > 0 { flags | libc::MSG_DONTWAIT } else { flags };
        // SAFETY: the C contract.
        match unsafe { receive(socket, piece.iov_base, piece.iov_len, flags) } {
            Ok(count) => {
                done += count;
                if count < piece.iov_len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rsend(socket: c_int, buf: *const c_void, len: usize, flags: c_int) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { send(socket, buf, len, flags) })
}

unsafe fn send(socket: c_int, buf: *const c_void, len: usize, flags: c_int) -> Result<usize, Errno> {
    let socket = table::find(socket)?;
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: the C contract.
    unsafe { socket.send(buf.cast(), len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rsendto(
    socket: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    dest_addr: *const sockaddr,
    _addrlen: socklen_t,
) -> ssize_t {
    if !dest_addr.is_null() {
        return long(Err(Errno(libc::EISCONN)));
    }
    // SAFETY: the C contract.
    long(unsafe { send(socket, buf, len, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rwrite(socket: c_int, buf: *const c_void, count: usize) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { send(socket, buf, count, 0) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rwritev(socket: c_int, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { send_all(socket, iov, usize::try_from(iovcnt).unwrap_or(usize::MAX), 0) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rsendmsg(socket: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the C contract.
    long(unsafe { pointer::read(msg) }.and_then(|msg| {
        // SAFETY: the C contract.
        unsafe { send_all(socket, msg.msg_iov, msg.msg_iovlen, flags) }
    }))
}

unsafe fn send_all(socket: c_int, iov: *const iovec, count: usize, flags: c_int) -> Result<usize, Errno> {
    if count > MAX_PIECES {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract.
    let pieces = unsafe { pointer::borrow_slice(iov, count) }?;
    let mut done = 0;
    for piece in pieces {
        // SAFETY: the C contract.
        match unsafe { send(socket, piece.iov_base, piece.iov_len, flags) } {
            Ok(count) => {
                done += count;
                if count < piece.iov_len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    if fds.is_null() && nfds > 0 {
        return minus_one(Err(Errno(libc::EFAULT)));
    }
    let Some(count) = usize::try_from(nfds).ok().filter(|count| *count <= MAX_FDS) else {
        return minus_one(Err(Errno::INVALID));
    };
    let fds = if count == 0 { std::ptr::NonNull::dangling().as_ptr() } else { fds };
    // SAFETY: the C contract: so many structures, which are the call's while it lasts.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count) };
    number(poll::poll(fds, timeout))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the C contract.
    number(unsafe { poll::select(nfds, [readfds, writefds, exceptfds], timeout) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rgetpeername(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    // SAFETY: the C contract.
    minus_one(table::find(socket).and_then(|socket| unsafe { write_address(&socket, true, addr, addrlen) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rgetsockname(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    // SAFETY: the C contract.
    minus_one(table::find(socket).and_then(|socket| unsafe { write_address(&socket, false, addr, addrlen) }))
}

/// Writes an address, cut off where the program has no more room, and how long it is.
unsafe fn write_address(
    socket: &Socket,
    is_peers: bool,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> Result<(), Errno> {
    if !is_peers {
        // The port may have been chosen since.
        socket.with(|inner| {
            // SAFETY: the socket's own ID.
            let (id, private) = unsafe { id::parts(inner.id) }?;
            refresh(id, private)
        })?;
    }
    let storage = socket.address(is_peers)?;
    let len = match c_int::from(storage.ss_family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        _ => size_of::<libc::sockaddr_in6>(),
    };
    // SAFETY: the C contract.
    let room = unsafe { pointer::read(addrlen) }? as usize;
    if addr.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let bytes = (&raw const storage).cast::<u8>();
    // SAFETY: the C contract: room for so many bytes; the storage is longer than any address.
    unsafe { addr.cast::<u8>().copy_from_nonoverlapping(bytes, len.min(room)) };
    // SAFETY: the C contract.
    unsafe { pointer::write(addrlen, len as socklen_t) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rsetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: socklen_t,
) -> c_int {
    minus_one(table::find(socket).and_then(|socket| {
        // SAFETY: the C contract.
        let value = unsafe { pointer::borrow_slice(optval.cast::<u8>(), optlen as usize) }?;
        socket.with(|inner| options::set(inner, level, optname, value))
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rgetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut socklen_t,
) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { get_option(socket, level, optname, optval, optlen) })
}

unsafe fn get_option(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    let found = table::find(socket)?.with(|inner| options::get(inner, level, name))?;
    let is_long = (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER);
    let whole = size_of::<c_int>() * if is_long { 2 } else { 1 };
    // SAFETY: the C contract.
    let room = unsafe { pointer::read(len) }? as usize;
    if value.is_null() || room < whole {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract: room for so many bytes.
    unsafe { value.cast::<u8>().copy_from_nonoverlapping(found.as_ptr().cast(), whole) };
    // SAFETY: the C contract.
    unsafe { pointer::write(len, whole as socklen_t) }
}

/// F_GETFL and F_SETFL, of whose flags O_NONBLOCK counts. The argument that C leaves open is read as a long.
#[unsafe(no_mangle)]
extern "C" fn rfcntl(socket: c_int, cmd: c_int, arg: libc::c_long) -> c_int {
    number(table::find(socket).and_then(|socket| match cmd {
        libc::F_GETFL => Ok(libc::O_RDWR | if socket.is_nonblocking() { libc::O_NONBLOCK } else { 0 }),
        libc::F_SETFL => {
            socket.set_nonblocking(arg as c_int & libc::O_NONBLOCK != 0);
            Ok(0)
        }
        _ => Err(Errno(libc::ENOTSUP)),
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn riomap(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    prot: c_int,
    _flags: c_int,
    offset: off_t,
) -> off_t {
    // SAFETY: the C contract.
    let mapped = table::find(socket).and_then(|socket| unsafe { socket.map(buf, len, prot, offset) });
    mapped.unwrap_or_else(|errno| {
        errno.raise();
        -1
    })
}

#[unsafe(no_mangle)]
extern "C" fn riounmap(socket: c_int, buf: *mut c_void, len: usize) -> c_int {
    minus_one(table::find(socket).and_then(|socket| socket.unmap(buf, len)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn riowrite(
    socket: c_int,
    buf: *const c_void,
    count: usize,
    offset: off_t,
    flags: c_int,
) -> usize {
    let written = table::find(socket).and_then(|socket| {
        // SAFETY: the C contract.
        unsafe { socket.write_mapped(buf.cast(), count, offset as u64, flags) }
    });
    // -1 in a type without sign, as librdmacm has it.
    long(written) as usize
}

macro_rules! absent {
    ($($name:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            minus_one(Err(Errno::UNSUPPORTED))
        }
    )*};
}

absent! { repoll_create, repoll_ctl, repoll_wait }

/// Pieces of one call at most (`IOV_MAX`).
const MAX_PIECES: usize = 1024;
/// Descriptors of one call at most, more than a process can have open.
const MAX_FDS: usize = 1 << 24;
