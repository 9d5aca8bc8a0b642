//! The library's errors, as the verbs return them.

use crate::verbs::{Errno, PostRefused, Refused};
use ferroce::{Error, ErrorKind, PostError};
use std::fmt::Display;

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        refused(error.kind(), error)
    }
}

impl From<PostError> for PostRefused {
    fn from(error: PostError) -> PostRefused {
        PostRefused { index: error.index, refused: refused(error.cause.kind(), error.cause) }
    }
}

fn refused(kind: ErrorKind, reason: impl Display) -> Refused {
    let errno = match kind {
        ErrorKind::Invalid => Errno::EINVAL,
        ErrorKind::NoRoom => Errno::ENOMEM,
        ErrorKind::BadAddress => Errno::EFAULT,
        ErrorKind::Busy => Errno::EBUSY,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::Absent => Errno::ENODATA,
        ErrorKind::Dead => Errno::EIO,
        ErrorKind::Os(number) => Errno::Other(number),
    };
    Refused { errno, reason: reason.to_string() }
}

/// A handle that this endpoint did not give out, or whose object is gone.
pub(super) fn unknown(what: &str) -> Refused {
    Refused { errno: Errno::EINVAL, reason: format!("there is no such {what}") }
}
