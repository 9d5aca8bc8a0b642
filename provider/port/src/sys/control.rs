//! Control messages (cmsg(3)), written and read as bytes.

use std::mem::{align_of, size_of};

use libc::c_int;

/// Room for the control messages of one `sendmsg` or `recvmsg` call: up to 8 × `WORDS` bytes, aligned as the kernel
/// wants them.
#[derive(Clone, Copy)]
pub(crate) struct Control<const WORDS: usize> {
    words: [u64; WORDS],
    len: usize,
}

impl<const WORDS: usize> Control<WORDS> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Control { words: [0; WORDS], len: 0 }
    }

    /// Appends one control message. The caller sizes `WORDS` for all that it pushes.
    pub(crate) fn push(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let start = self.len;
        let total = HEADER_LEN + value.len();
        let bytes = self.bytes_mut();
        let room = &mut bytes[start..start + total];
        room[..LEVEL_AT].copy_from_slice(&total.to_ne_bytes());
        room[LEVEL_AT..KIND_AT].copy_from_slice(&level.to_ne_bytes());
        room[KIND_AT..HEADER_LEN].copy_from_slice(&kind.to_ne_bytes());
        room[HEADER_LEN..].copy_from_slice(value);
        self.len = start + total.next_multiple_of(ALIGN);
    }

    /// Bytes in use, padding included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The whole room, for the kernel to fill; [`Control::filled`] tells how much it used.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }

    /// The kernel wrote `len` bytes into [`Control::room`].
    pub(crate) fn filled(&mut self, len: usize) {
        self.len = len.min(WORDS * size_of::<u64>());
    }

    /// The control messages in use, ready for the kernel.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.len;
        // SAFETY: a u64 has no padding and any byte may be looked at; `len` never exceeds the array.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>(), len) }
    }

    /// The control messages one by one.
    pub(crate) fn iter(&self) -> ControlMessages<'_> {
        ControlMessages { rest: self.bytes() }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let len = WORDS * size_of::<u64>();
        // SAFETY: a u64 may hold any bytes, and the slice borrows the array for as long as it lives.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast::<u8>(), len) }
    }
}

/// One received control message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ControlMessage<'a> {
    pub(crate) level: c_int,
    pub(crate) kind: c_int,
    pub(crate) value: &'a [u8],
}

impl ControlMessage<'_> {
    /// The value as an `int`, which some options shorten to a byte or to 16 bits.
    pub(crate) fn as_int(&self) -> Option<c_int> {
        match *self.value {
            [byte] => Some(byte.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            [a, b, c, d, ..] => Some(c_int::from_ne_bytes([a, b, c, d])),
            _ => None,
        }
    }
}

/// Walks control messages; stops at the first that does not fit.
pub(crate) struct ControlMessages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    fn next(&mut self) -> Option<ControlMessage<'a>> {
        let header = self.rest.get(..HEADER_LEN)?;
        let total = usize::from_ne_bytes(header[..LEVEL_AT].try_into().ok()?);
        let level = c_int::from_ne_bytes(header[LEVEL_AT..KIND_AT].try_into().ok()?);
        let kind = c_int::from_ne_bytes(header[KIND_AT..].try_into().ok()?);
        let value = self.rest.get(HEADER_LEN..total)?;
        self.rest = self.rest.get(total.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some(ControlMessage { level, kind, value })
    }
}

/// Bytes that a control message with a value of `len` bytes takes up.
pub(crate) const fn space(len: usize) -> usize {
    (HEADER_LEN + len).next_multiple_of(ALIGN)
}

// The layout of `struct cmsghdr` on Linux: size_t, int, int, then the value.
const ALIGN: usize = align_of::<libc::cmsghdr>();
const LEVEL_AT: usize = size_of::<usize>();
const KIND_AT: usize = LEVEL_AT + size_of::<c_int>();
const HEADER_LEN: usize = KIND_AT + size_of::<c_int>();
const _: () = assert!(HEADER_LEN == size_of::<libc::cmsghdr>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_messages_come_back_in_order() {
        let mut control = Control::<8>::new();
        control.push(1, 2, &[3]);
        control.push(4, 5, &7i32.to_ne_bytes());
        let seen: Vec<_> = control.iter().map(|m| (m.level, m.kind, m.as_int())).collect();
        assert_eq!(seen, [(1, 2, Some(3)), (4, 5, Some(7))]);
        assert_eq!(control.len(), space(1) + space(4));
    }

    #[test]
    fn a_length_that_lies_ends_the_walk() {
        let mut control = Control::<8>::new();
        control.push(1, 2, &[3; 8]);
        for total in [0, 1, HEADER_LEN - 1, 4096, usize::MAX] {
            control.room()[..LEVEL_AT].copy_from_slice(&total.to_ne_bytes());
            assert_eq!(control.iter().next(), None, "length {total}");
        }
    }

    #[test]
    fn layout_is_the_c_librarys() {
        for len in [0, 1, 4, 12, 20, 1012] {
            // SAFETY: CMSG_SPACE only computes.
            assert_eq!(space(len), unsafe { libc::CMSG_SPACE(len as u32) } as usize);
        }
    }
}
