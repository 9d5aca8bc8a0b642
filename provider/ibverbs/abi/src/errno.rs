//! The three ways in which libibverbs' functions report an error, from one error type.

use ferroce::ErrorKind;
use libc::c_int;
use std::ptr::null_mut;

/// A positive error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

impl Errno {
    /// EINVAL: an argument is wrong.
    pub const INVALID: Errno = Errno(libc::EINVAL);
    /// EOPNOTSUPP: there is no such feature.
    pub const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);
    /// EBUSY: the object is in use.
    pub const BUSY: Errno = Errno(libc::EBUSY);

    /// Puts it into `errno` and returns it.
    ///
    /// Functions that return their error number set `errno` as well, since the kernel's calls behind rdma-core's do, and
    /// programs print it.
    pub fn raise(self) -> c_int {
        // SAFETY: the C library answers with the address of the calling thread's errno, which is valid for its life.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { errno.write(self.0) };
        self.0
    }
}

impl From<ErrorKind> for Errno {
    fn from(kind: ErrorKind) -> Errno {
        Errno(match kind {
            ErrorKind::Invalid => libc::EINVAL,
            ErrorKind::NoRoom => libc::ENOMEM,
            ErrorKind::BadAddress => libc::EFAULT,
            ErrorKind::Busy => libc::EBUSY,
            ErrorKind::Unsupported => libc::EOPNOTSUPP,
            ErrorKind::Absent => libc::ENODATA,
            ErrorKind::Os(number) => number,
            ErrorKind::Dead => libc::EIO,
        })
    }
}

impl From<ferroce::Error> for Errno {
    /// Logs the reason, which the number alone does not tell. An empty channel is no error worth a line.
    fn from(error: ferroce::Error) -> Errno {
        let errno = Errno::from(error.kind());
        match error.kind() {
            ErrorKind::Os(libc::EAGAIN | libc::EINTR) => {}
            ErrorKind::Dead => tracing::error!(%error),
            _ => tracing::info!(%error, errno = errno.0),
        }
        errno
    }
}

/// For functions that return 0 or the error number.
pub fn status(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => errno.raise(),
    }
}

/// For functions that return 0, or -1 with `errno` set.
pub fn minus_one(result: Result<(), Errno>) -> c_int {
    count(result.map(|()| 0))
}

/// For functions that return a number, or -1 with `errno` set.
pub fn count(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|errno| {
        errno.raise();
        -1
    })
}

/// For functions that return a pointer, or null with `errno` set.
pub fn pointer<T>(result: Result<*mut T, Errno>) -> *mut T {
    result.unwrap_or_else(|errno| {
        errno.raise();
        null_mut()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno() -> c_int {
        std::io::Error::last_os_error().raw_os_error().unwrap()
    }

    #[test]
    fn each_way_leaves_the_number_in_errno() {
        assert_eq!(status(Err(Errno::INVALID)), libc::EINVAL);
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(minus_one(Err(Errno::BUSY)), -1);
        assert_eq!(errno(), libc::EBUSY);
        assert!(pointer::<u8>(Err(Errno(libc::ENOMEM))).is_null());
        assert_eq!(errno(), libc::ENOMEM);
    }

    #[test]
    fn success_leaves_errno_alone() {
        Errno::BUSY.raise();
        assert_eq!((status(Ok(())), minus_one(Ok(())), count(Ok(3))), (0, 0, 3));
        assert_eq!(errno(), libc::EBUSY);
    }
}
