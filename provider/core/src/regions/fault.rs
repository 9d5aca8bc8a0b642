//! Why memory was not registered, or a key not honoured.

use crate::{AccessFlags, PdId};
use std::fmt;
use thiserror::Error;

/// Why memory was not registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RegisterError {
    /// The table is full (ENOMEM).
    #[error("all {max} regions of the device are in use: deregister some, or register larger ones")]
    TooManyRegions {
        /// The limit.
        max: u32,
    },
    /// Bits that mean nothing.
    #[error("access bits {bits:#x} mean nothing")]
    UnknownAccess {
        /// Those bits.
        bits: u32,
    },
    /// Rights for features that the device does not report.
    #[error("this device does not support {access:?}; its capabilities do not report it")]
    UnsupportedAccess {
        /// Those rights.
        access: AccessFlags,
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
#[error("nothing to deregister: {0}")]
pub struct DeregisterError(#[from] pub KeyFault);

/// A key that leads to nothing its user may touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum KeyFault {
    /// No region has or had it.
    #[error("no region has the key {key:#010x}")]
    Unknown {
        /// The key.
        key: u32,
    },
    /// Its number is known, its key byte is not the present one.
    #[error("the key {key:#010x} is stale: its region has been deregistered")]
    Stale {
        /// The key.
        key: u32,
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

/// An access that begins before the region or ends after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeFault {
    /// First address asked for.
    pub va: u64,
    /// Bytes asked for.
    pub length: u32,
    /// First address of the region.
    pub iova: u64,
    /// Bytes of the region.
    pub region_length: u64,
}

impl std::error::Error for RangeFault {}

impl fmt::Display for RangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeFault { va, length, iova, region_length } = self;
        write!(f, "{length} bytes at {va:#x} are not inside the region's {region_length} bytes at {iova:#x}")
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
    /// The region lacks a right.
    #[error("R_Key: the region of {rkey:#010x} lacks {missing:?}, it was registered with {granted:?}")]
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
}
