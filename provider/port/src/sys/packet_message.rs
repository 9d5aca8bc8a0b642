//! `sendmmsg` and `recvmmsg`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_void, iovec, mmsghdr};
use smallvec::SmallVec;

use super::control::Control;
use super::name::SocketName;

/// One message to send: one packet, or a run of them with a `UDP_SEGMENT` control message.
pub(crate) struct Outgoing<'a> {
    pub(crate) name: &'a SocketName,
    pub(crate) control: &'a TransmitControl,
    pub(crate) bytes: &'a [u8],
}

/// Room for source address, traffic class, hop limit and segment size of a message.
pub(crate) type TransmitControl = Control<14>;

/// The most messages that one [`send`] takes.
pub(crate) const MAX_SEND: usize = 16;

/// Sends the first [`MAX_SEND`] of `messages` without blocking. Returns how many the kernel took, at least one; or why
/// it did not take the first.
pub(crate) fn send<'a>(
    socket: BorrowedFd<'_>,
    messages: impl Iterator<Item = Outgoing<'a>>,
) -> io::Result<usize> {
    let mut names = SmallVec::<[(&SocketName, &TransmitControl); MAX_SEND]>::new();
    let mut parts = SmallVec::<[iovec; MAX_SEND]>::new();
    for message in messages.take(MAX_SEND) {
        let Outgoing { name, control, bytes } = message;
        parts.push(iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() });
        names.push((name, control));
    }
    let mut headers = SmallVec::<[mmsghdr; MAX_SEND]>::new();
    for (part, (name, control)) in parts.iter_mut().zip(&names) {
        let mut header = empty_header();
        header.msg_hdr.msg_name = name.bytes().as_ptr().cast_mut().cast::<c_void>();
        header.msg_hdr.msg_namelen = name.bytes().len() as libc::socklen_t;
        header.msg_hdr.msg_iov = &raw mut *part;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = control.bytes().as_ptr().cast_mut().cast::<c_void>();
        header.msg_hdr.msg_controllen = control.len();
        headers.push(header);
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the headers point at `parts`, and at names, control messages and bytes borrowed for 'a, all of which
    // outlive the call; the kernel only reads them, and writes the headers' msg_len.
    let sent =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as u32, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Buffers for received messages, used again and again. Memory is touched only as far as messages fill it.
pub(crate) struct Incoming {
    bytes: Box<[u8]>,
    slots: Box<[Slot]>,
}

/// What came with one received message.
#[derive(Clone)]
struct Slot {
    name: SocketName,
    control: ReceiveControl,
    len: usize,
    flags: i32,
}

/// Room for destination address, traffic class and segment size of a message, in both families' forms.
pub(crate) type ReceiveControl = Control<24>;

/// One received message.
pub(crate) struct IncomingMessage<'a> {
    pub(crate) name: &'a SocketName,
    pub(crate) control: &'a ReceiveControl,
    pub(crate) bytes: &'a [u8],
    /// `MSG_TRUNC`, `MSG_CTRUNC`.
    pub(crate) flags: i32,
}

impl Incoming {
    /// Room for `messages` messages of the longest kind.
    pub(crate) fn new(messages: usize) -> Incoming {
        let slot = Slot { name: SocketName::EMPTY, control: ReceiveControl::new(), len: 0, flags: 0 };
        Incoming { bytes: vec![0; messages * STRIDE].into(), slots: vec![slot; messages].into() }
    }

    /// The most messages that one [`Incoming::receive`] gets.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Receives up to `limit` messages without blocking, over those of the last call. `WouldBlock` when there is none.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        let mut parts = SmallVec::<[iovec; INLINE]>::new();
        for room in self.bytes.chunks_exact_mut(STRIDE).take(limit) {
            parts.push(iovec { iov_base: room.as_mut_ptr().cast::<c_void>(), iov_len: STRIDE });
        }
        let mut headers = SmallVec::<[mmsghdr; INLINE]>::new();
        for (part, slot) in parts.iter_mut().zip(&mut self.slots) {
            let mut header = empty_header();
            let (name, control) = (slot.name.room(), slot.control.room());
            header.msg_hdr.msg_name = name.as_mut_ptr().cast::<c_void>();
            header.msg_hdr.msg_namelen = name.len() as libc::socklen_t;
            header.msg_hdr.msg_iov = &raw mut *part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast::<c_void>();
            header.msg_hdr.msg_controllen = control.len();
            headers.push(header);
        }
        let timeout = std::ptr::null_mut();
        let count = headers.len() as u32;
        // SAFETY: the headers point at `parts` and at buffers of `self`, each with its true length; they outlive the
        // call, and `self` is borrowed exclusively meanwhile.
        let got = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT, timeout)
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (slot, header) in self.slots.iter_mut().zip(&headers[..got]) {
            slot.name.filled(header.msg_hdr.msg_namelen);
            slot.control.filled(header.msg_hdr.msg_controllen);
            slot.len = (header.msg_len as usize).min(STRIDE);
            slot.flags = header.msg_hdr.msg_flags;
        }
        Ok(got)
    }

    /// The messages of the last [`Incoming::receive`], which returned `count`.
    pub(crate) fn messages(&self, count: usize) -> impl Iterator<Item = IncomingMessage<'_>> {
        self.slots[..count].iter().zip(self.bytes.chunks_exact(STRIDE)).map(|(slot, bytes)| IncomingMessage {
            name: &slot.name,
            control: &slot.control,
            bytes: &bytes[..slot.len],
            flags: slot.flags,
        })
    }
}

fn empty_header() -> mmsghdr {
    // SAFETY: all fields are integers or pointers, for which zero is a valid value.
    unsafe { std::mem::zeroed() }
}

/// Room for one message: the longest UDP payload, and so the longest bundle of segments, is shorter.
const STRIDE: usize = 1 << 16;

/// Headers kept on the stack; more would go to the heap.
const INLINE: usize = 16;
