//! Why memory was not registered, or a key not honoured.

use crate::{AccessFlags, PdId};
use ferroce_wire::Qpn;
use std::fmt;
use thiserror::Error;

/// Why memory was not registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RegisterError {
    /// The table is full (ENOMEM).
    #[error("all {max} keys of the device are in use: deregister some regions, or register larger ones")]
    TooManyKeys {
        /// The limit.
        max: u32,
    },
    /// Bits that mean nothing.
    #[error("access bits {bits:#x} mean nothing")]
    UnknownAccess {
        /// Those bits.
        bits: u32,
    },
    /// A peer may change the memory, but the device itself may not.
    #[error("REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too, and the access flags are {access:?}")]
    NeedsLocalWrite {
        /// The rights asked for.
        access: AccessFlags,
    },
    /// The region would reach past the last address.
    #[error("{length} bytes from {what} {start:#x} on reach past the end of the address space")]
    Wraps {
        /// Which of the two addresses.
        what: &'static str,
        /// Its value.
        start: u64,
        /// Bytes.
        length: u64,
    },
}

/// Why a region was not deregistered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DeregisterError {
    /// There is none.
    #[error("nothing to deregister: {0}")]
    Key(#[from] KeyFault),
    /// Windows are bound to it (EBUSY).
    #[error(
        "{windows} memory windows are bound to the region of {lkey:#010x}: unbind or invalidate them first"
    )]
    WindowsBound {
        /// Its key.
        lkey: u32,
        /// How many.
        windows: u32,
    },
}

/// Why a region was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ReregisterError {
    /// There is none.
    #[error("nothing to reregister: {0}")]
    Key(#[from] KeyFault),
    /// Windows are bound to it (EBUSY).
    #[error(
        "{windows} memory windows are bound to the region of {lkey:#010x}: unbind or invalidate them first"
    )]
    WindowsBound {
        /// Its key.
        lkey: u32,
        /// How many.
        windows: u32,
    },
    /// It has no memory to change.
    #[error("{lkey:#010x} is the key of a null region, of which nothing can be changed")]
    Null {
        /// Its key.
        lkey: u32,
    },
    /// What it would be cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Why a memory window was not made: the table is full (ENOMEM).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("all {max} keys of the device are in use: deallocate some memory windows, or deregister regions")]
pub struct AllocMwError {
    /// The limit.
    pub max: u32,
}

/// Why a memory window was not bound (IBTA 10.6.7.2, 11.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BindFault {
    /// Its R_Key leads to no window of the QP's protection domain.
    #[error("memory window: {0}")]
    Window(KeyFault),
    /// A type 2 window that is bound already (o10-37.2.30).
    #[error("the type 2 memory window of {rkey:#010x} is bound already: invalidate it first")]
    Bound {
        /// Its key.
        rkey: u32,
    },
    /// A type 2 window over no bytes (o10-37.2.40).
    #[error("a type 2 memory window is unbound by an invalidation, not by a bind of length 0")]
    Empty,
    /// The L_Key leads to no region of the QP's protection domain.
    #[error("region: {0}")]
    Region(KeyFault),
    /// The region was registered without MW_BIND (C10-73).
    #[error("the region of {lkey:#010x} was registered without MW_BIND")]
    NotBindable {
        /// Its key.
        lkey: u32,
    },
    /// A peer may change the memory through the window, but the device itself may not (C10-74).
    #[error(
        "windows with REMOTE_WRITE or REMOTE_ATOMIC need a region with LOCAL_WRITE, which that of {lkey:#010x} lacks"
    )]
    NotWritable {
        /// The region's key.
        lkey: u32,
    },
    /// A right to FLUSH that the region lacks.
    #[error("the region of {lkey:#010x} lacks {missing:?}, which the window should give")]
    NotFlushable {
        /// The region's key.
        lkey: u32,
        /// What it lacks.
        missing: AccessFlags,
    },
    /// Rights that a window cannot give.
    #[error("a memory window cannot give {0:?}")]
    Access(AccessFlags),
    /// A type 1 window and addresses that count from 0 (o10-36.2.2).
    #[error("a type 1 memory window has the addresses of its region, and these must not count from 0")]
    ZeroBased,
    /// The range does not lie inside the region (C10-75).
    #[error("memory window: {0}")]
    Range(#[from] RangeFault),
}

/// A key that leads to nothing its user may touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum KeyFault {
    /// No region and no window has or had it.
    #[error("no region or window has the key {key:#010x}")]
    Unknown {
        /// The key.
        key: u32,
    },
    /// Its number is known, its key byte is not the present one.
    #[error(
        "the key {key:#010x} is stale: its region has been deregistered, or its window bound again or deallocated"
    )]
    Stale {
        /// The key.
        key: u32,
    },
    /// It stands for a memory window where a region's is needed.
    #[error("{key:#010x} is the R_Key of a memory window, which is no L_Key")]
    Window {
        /// The key.
        key: u32,
    },
    /// It stands for a memory window that is not bound, or whose region is gone.
    #[error("the memory window of {key:#010x} is not bound")]
    Unbound {
        /// The key.
        key: u32,
    },
    /// It stands for a type 2 memory window that was bound through another QP.
    #[error("the type 2 memory window of {key:#010x} is bound to QP {bound_to}, but used through {used_by}")]
    OtherQp {
        /// The key.
        key: u32,
        /// The QP that it is used through.
        used_by: Qpn,
        /// The QP that it was bound through.
        bound_to: Qpn,
    },
    /// Its region belongs to another protection domain.
    #[error("the key {key:#010x} belongs to PD {}, but the QP is in PD {}", .belongs_to.0, .used_in.0)]
    OtherPd {
        /// The key.
        key: u32,
        /// The QP's protection domain.
        used_in: PdId,
        /// The region's.
        belongs_to: PdId,
    },
}

/// An access that begins before its region or window, or ends after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeFault {
    /// First address asked for.
    pub va: u64,
    /// Bytes asked for.
    pub length: u64,
    /// First address of the region or window.
    pub start: u64,
    /// Bytes of the region or window.
    pub size: u64,
}

impl std::error::Error for RangeFault {}

impl fmt::Display for RangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeFault { va, length, start, size } = self;
        write!(
            f,
            "{length} bytes at {va:#x} are not inside the {size} bytes at {start:#x} that the key covers"
        )
    }
}

/// A scatter/gather element that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LocalFault {
    /// Its key leads nowhere.
    #[error("L_Key: {0}")]
    Key(#[from] KeyFault),
    /// The device should write to a region without LOCAL_WRITE.
    #[error("L_Key: the region of {lkey:#010x} was registered without LOCAL_WRITE")]
    NotWritable {
        /// The key.
        lkey: u32,
    },
    /// It does not lie inside the region.
    #[error("L_Key: {0}")]
    Range(#[from] RangeFault),
}

/// A peer's request that may not be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RemoteFault {
    /// Its key leads nowhere.
    #[error("R_Key: {0}")]
    Key(#[from] KeyFault),
    /// The region or window lacks a right.
    #[error("R_Key: {rkey:#010x} does not give {missing:?}, only {granted:?}")]
    MissingRights {
        /// The key.
        rkey: u32,
        /// What it lacks.
        missing: AccessFlags,
        /// What it has.
        granted: AccessFlags,
    },
    /// The range does not lie inside the region.
    #[error("R_Key: {0}")]
    Range(#[from] RangeFault),
}

/// A key that may not be invalidated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum InvalidateFault {
    /// It leads nowhere.
    #[error("{0}")]
    Key(#[from] KeyFault),
    /// It belongs to a region, not to a type 2 memory window.
    #[error(
        "{rkey:#010x} is the key of a region: only the R_Key of a type 2 memory window can be invalidated"
    )]
    UserRegion {
        /// The key.
        rkey: u32,
    },
    /// It belongs to a type 1 memory window (o10-37.2.26).
    #[error(
        "{rkey:#010x} is the R_Key of a type 1 memory window, which is unbound by a bind of length 0 and not by an \
         invalidation"
    )]
    Type1 {
        /// The key.
        rkey: u32,
    },
}
