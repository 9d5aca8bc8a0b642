//! Options of a socket.

use super::inner::{Inner, Phase};
use super::stream::CONTROL_WRS;
use crate::id::parts;
use ferroce_abi::errno::Errno;
use libc::c_int;

/// Sizes, and what an application has set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Bytes of the send buffer.
    pub(super) send_buffer: usize,
    /// Bytes of the receive buffer.
    pub(super) receive_buffer: usize,
    /// Send WRs.
    pub(super) sq_size: u32,
    /// Receive WRs, and with them messages that the peer may have under way.
    pub(super) rq_size: u32,
    /// Bytes that are sent inline.
    pub(super) inline: u32,
    /// Buffers that the peer may map.
    pub(super) iomap_size: u32,
    reuses_address: bool,
    is_v6_only: bool,
    /// TCP_NODELAY, which is always so.
    has_no_delay: bool,
    keeps_alive: bool,
    linger: [c_int; 2],
}

impl Default for Options {
    fn default() -> Options {
        Options {
            send_buffer: 1 << 17,
            receive_buffer: 1 << 17,
            sq_size: 384,
            rq_size: 384,
            inline: 64,
            iomap_size: 0,
            reuses_address: false,
            is_v6_only: false,
            has_no_delay: false,
            keeps_alive: false,
            linger: [0; 2],
        }
    }
}

/// Sets an option.
pub(super) fn set(inner: &mut Inner, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
    let number = |value: &[u8]| {
        let bytes = value.first_chunk().ok_or(Errno::INVALID)?;
        Ok::<c_int, Errno>(c_int::from_ne_bytes(*bytes))
    };
    let is_open = matches!(inner.phase, Phase::Idle | Phase::Listening);
    let options = &mut inner.options;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
            options.reuses_address = number(value)? != 0;
            // SAFETY: the socket's own ID.
            let (_, id) = unsafe { parts(inner.id) }?;
            id.cm.set_shares_address(options.reuses_address)?;
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF) if is_open => {
            options.receive_buffer = buffer(number(value)?)? * 2;
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF) if is_open => options.send_buffer = buffer(number(value)?)?,
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let rest = value.get(size_of::<c_int>()..).unwrap_or_default();
            options.linger = [number(value)?, number(rest)?];
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keeps_alive = number(value)? != 0,
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => {}
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.has_no_delay = number(value)? != 0,
        (
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG | libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT,
        ) => {}
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
            options.is_v6_only = number(value)? != 0;
            // SAFETY: the socket's own ID.
            let (_, id) = unsafe { parts(inner.id) }?;
            id.cm.set_v6_only(options.is_v6_only)?;
        }
        (SOL_RDMA, SQSIZE) if is_open => {
            options.sq_size = size(number(value)?)?.clamp(2 * CONTROL_WRS, MAX_QUEUE);
        }
        (SOL_RDMA, RQSIZE) if is_open => {
            options.rq_size = size(number(value)?)?.clamp(2 * CONTROL_WRS, MAX_QUEUE);
        }
        (SOL_RDMA, INLINE) if is_open => {
            // An entry of the list of buffers is always sent inline.
            options.inline = size(number(value)?)?.clamp(MIN_INLINE, MAX_INLINE);
        }
        (SOL_RDMA, IOMAPSIZE) if is_open => options.iomap_size = size(number(value)?)?.min(MAX_IOMAP),
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF)
        | (SOL_RDMA, SQSIZE | RQSIZE | INLINE | IOMAPSIZE) => return Err(Errno::INVALID),
        _ => return Err(Errno(libc::ENOTSUP)),
    }
    Ok(())
}

/// The value of an option; two for SO_LINGER.
pub(super) fn get(inner: &mut Inner, level: c_int, name: c_int) -> Result<[c_int; 2], Errno> {
    let options = &inner.options;
    let one = |value: u32| Ok([value as c_int, 0]);
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => one(std::mem::take(&mut inner.error) as u32),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => one(options.reuses_address.into()),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => one(options.receive_buffer as u32),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => one(options.send_buffer as u32),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => one(options.keeps_alive.into()),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => one(1),
        (libc::SOL_SOCKET, libc::SO_TYPE) => one(libc::SOCK_STREAM as u32),
        (libc::SOL_SOCKET, libc::SO_LINGER) => Ok(options.linger),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => one(options.has_no_delay.into()),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => one(MAX_SEGMENT),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => one(options.is_v6_only.into()),
        (SOL_RDMA, SQSIZE) => one(options.sq_size),
        (SOL_RDMA, RQSIZE) => one(options.rq_size),
        (SOL_RDMA, INLINE) => one(options.inline),
        (SOL_RDMA, IOMAPSIZE) => one(options.iomap_size),
        _ => Err(Errno(libc::ENOTSUP)),
    }
}

fn size(value: c_int) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| Errno::INVALID)
}

/// A buffer's size in bytes: not so small that nothing fits, nor so large that messages cannot say it.
fn buffer(value: c_int) -> Result<usize, Errno> {
    Ok(size(value)?.clamp(MIN_BUFFER, MAX_BUFFER) as usize)
}

const MIN_BUFFER: u32 = 4096;
const MAX_BUFFER: u32 = 1 << 28;
/// Credits are numbers of 16 bits, compared as signed.
const MAX_QUEUE: u32 = 0x3fff;
const MIN_INLINE: u32 = 16;
const MAX_INLINE: u32 = 256;
const MAX_IOMAP: u32 = 128;
/// Bytes of a packet's payload at most.
const MAX_SEGMENT: u32 = 4096;
/// Level of the options that only rsockets have.
const SOL_RDMA: c_int = 0x10000;
/// `RDMA_SQSIZE`.
const SQSIZE: c_int = 0;
/// `RDMA_RQSIZE`.
const RQSIZE: c_int = 1;
/// `RDMA_INLINE`.
const INLINE: c_int = 2;
/// `RDMA_IOMAPSIZE`.
const IOMAPSIZE: c_int = 3;
