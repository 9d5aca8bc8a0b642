//! Socket options.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void, socklen_t};

/// Sets an option whose value is an `int`.
pub(crate) fn set_int(fd: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set(fd.as_fd(), level, name, &value)
}

/// Reads an option whose value is an `int`.
pub(crate) fn int(fd: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    let pointer = (&raw mut value).cast::<c_void>();
    // SAFETY: `pointer` and `len` describe an int that outlives the call; the kernel writes at most `len` bytes.
    let result = unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), level, name, pointer, &mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// The credentials of the process at the other end of a Unix socket, as they were when it connected.
pub(crate) fn peer_credentials(fd: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut value = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as socklen_t;
    let pointer = (&raw mut value).cast::<c_void>();
    // SAFETY: `pointer` and `len` describe a ucred that outlives the call; the kernel writes at most `len` bytes.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, pointer, &mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Attaches a classic BPF program with the option `name`: `SO_ATTACH_FILTER` or `SO_ATTACH_REUSEPORT_CBPF`.
pub(crate) fn attach_program(fd: impl AsFd, name: c_int, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // The kernel only reads the program, although the C type is a mutable pointer.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set(fd.as_fd(), libc::SOL_SOCKET, name, &program)
}

/// One statement of a classic BPF program (linux/filter.h).
pub(crate) const fn statement(code: u32, k: u32) -> libc::sock_filter {
    jump(code, k, 0, 0)
}

/// One conditional jump of a classic BPF program; `yes` and `no` count the statements to skip.
pub(crate) const fn jump(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

fn set<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let pointer = (&raw const *value).cast::<c_void>();
    // SAFETY: `pointer` and the length describe `value`, which outlives the call; the kernel only reads it.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer, size_of_val(value) as socklen_t) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
