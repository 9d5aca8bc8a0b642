//! Why a verb was refused. Each error has a kind, from which the C ABI makes the errno.

use crate::gid::Gid;
use ferroce_cm::CmCallError;
use ferroce_core::{
    AccessFlags, AllocMwError, BadAddress, CreateQpError, CreateSrqError, DeregisterError, KeyFault,
    LocalFault, McastError, ModifyQpError, RegisterError, ReregisterError, SelectiveRepeatError, UnknownQp,
    UnknownSrq,
};
use ferroce_keeper::KeeperError;
use ferroce_port::UdpPortError;
use ferroce_wire::Qpn;
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// What kind of refusal it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// An argument is wrong (EINVAL).
    Invalid,
    /// A queue or table is full, or memory is short (ENOMEM).
    NoRoom,
    /// The address range is not mapped (EFAULT).
    BadAddress,
    /// The object is in use (EBUSY).
    Busy,
    /// The device does not have the feature (EOPNOTSUPP).
    Unsupported,
    /// There is nothing there (ENODATA).
    Absent,
    /// Nothing waits now (EAGAIN), or the call was interrupted (EINTR): the operating system's own answer.
    Os(i32),
    /// The device can't work: it could not be started, or belongs to the parent of a forked process (EIO).
    Dead,
}

/// Why a verb was refused.
#[derive(Debug, Error)]
pub enum Error {
    /// UDP 4791 could not be shared or bound.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// The sockets could not be set up.
    #[error(transparent)]
    Port(#[from] UdpPortError),
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Os {
        /// What was being done.
        doing: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
    /// The object was made before a `fork`.
    #[error("the device was opened before fork(2) and is dead in the child: open it again there")]
    Forked,
    /// A call to `modify_qp` broke a rule.
    #[error(transparent)]
    Modify(#[from] ModifyQpError),
    /// A QP does not repeat selectively.
    #[error(transparent)]
    SelectiveRepeat(#[from] SelectiveRepeatError),
    /// The connection manager refused a call.
    #[error(transparent)]
    Connection(#[from] CmCallError),
    /// An ID of the RDMA CM is not in a state for a call.
    #[error("the ID is {state}, which does not allow to {call}")]
    CmState {
        /// Its state.
        state: &'static str,
        /// What was to be done.
        call: &'static str,
    },
    /// No device has the address.
    #[error("no device has the address {0}: `ferroce devices` lists the ones there are")]
    NoDevice(IpAddr),
    /// The system knows no way to the address.
    #[error("no route to {peer}: {source}")]
    NoRoute {
        /// Where to.
        peer: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A QP could not be made.
    #[error(transparent)]
    CreateQp(#[from] CreateQpError),
    /// A region could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A region could not be deregistered.
    #[error(transparent)]
    Deregister(#[from] DeregisterError),
    /// A region could not be changed.
    #[error(transparent)]
    Reregister(#[from] ReregisterError),
    /// A region that was not made by registering the application's memory.
    #[error(
        "only a region of the application's own memory can be changed, not a null region or one of other memory"
    )]
    NotChangeable,
    /// An object of another open device.
    #[error("the {0} belongs to another open device")]
    OtherContext(&'static str),
    /// An element of advice that cannot be followed.
    #[error(transparent)]
    Local(#[from] LocalFault),
    /// Advice about nothing.
    #[error("no elements are given")]
    NothingAdvised,
    /// Advice about a region whose memory is always there.
    #[error("the region of {lkey:#010x} was registered without ON_DEMAND")]
    NotOnDemand {
        /// Its key.
        lkey: u32,
    },
    /// Bytes outside device memory.
    #[error("{length} bytes from {offset} on are not inside the {size} bytes of the device memory")]
    OutsideDm {
        /// Where they begin.
        offset: u64,
        /// How many.
        length: u64,
        /// Bytes of the device memory.
        size: u64,
    },
    /// Device memory is used up.
    #[error("{asked} bytes of device memory are asked for and {left} are left")]
    DmFull {
        /// What was asked.
        asked: u64,
        /// What is left.
        left: u64,
    },
    /// A region in device memory that does not count from 0.
    #[error("addresses in device memory count from 0: register it with ZERO_BASED")]
    DmNotZeroBased,
    /// Memory that is registered is gone.
    #[error(transparent)]
    BadAddress(#[from] BadAddress),
    /// Rights that memory behind a file descriptor cannot have.
    #[error("memory behind a dmabuf cannot be registered with {0:?}")]
    DmabufAccess(AccessFlags),
    /// A dmabuf's offset and iova do not fit each other.
    #[error("offset {offset:#x} and iova {iova:#x} are at different places of a page")]
    DmabufOffset {
        /// Where in the dmabuf it begins.
        offset: u64,
        /// What its users call that.
        iova: u64,
    },
    /// A memory window could not be made.
    #[error(transparent)]
    AllocMw(#[from] AllocMwError),
    /// A key leads nowhere.
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// The QP is gone.
    #[error(transparent)]
    UnknownQp(#[from] UnknownQp),
    /// Part of the range is not mapped, or not readable.
    #[error("{length} bytes at {addr:#x} are not all there: nothing readable is mapped at {at:#x}")]
    NotMapped {
        /// First address.
        addr: u64,
        /// Bytes.
        length: u64,
        /// Where the first hole is.
        at: u64,
    },
    /// Part of the range is read-only, and the access asked for would write it.
    #[error(
        "{length} bytes at {addr:#x} are read-only from {at:#x} on: register them without LOCAL_WRITE, or map them \
         writable"
    )]
    ReadOnly {
        /// First address.
        addr: u64,
        /// Bytes.
        length: u64,
        /// The first read-only address.
        at: u64,
    },
    /// Memory of which nothing survives.
    #[error("{at:#x} is not in a shared mapping of a file, so no FLUSH can make it persistent")]
    NotPersistent {
        /// The first such address.
        at: u64,
    },
    /// A size is 0 or beyond the device's limit.
    #[error("{what} {asked} is outside 1..={limit}")]
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// What was asked.
        asked: u64,
        /// What the device allows (`ibv_query_device(3)`).
        limit: u64,
    },
    /// All CQs are in use.
    #[error("all of the device's CQs are in use (at most {max}): destroy some first")]
    TooManyCqs {
        /// CQs there can be.
        max: u32,
    },
    /// A CQ can't shrink below what it holds.
    #[error("the CQ holds {held} completions, so it can't be resized to {asked}")]
    CqTooSmall {
        /// What was asked.
        asked: u32,
        /// What waits in it.
        held: u32,
    },
    /// The port number is not 1.
    #[error("port {0} does not exist: the device has port 1 only")]
    NoSuchPort(u32),
    /// The index is past the GID table.
    #[error("GID index {index} is past the table of {len}")]
    GidIndexRange {
        /// What was asked.
        index: u32,
        /// Length of the table.
        len: u32,
    },
    /// The GID table entry is empty.
    #[error("GID index {0} is empty: `ferroce devices` lists the ones that are not")]
    GidEmpty(u32),
    /// The address vector has no global route.
    #[error(
        "the address vector has is_global = 0: RoCE always needs a GRH (set is_global and grh.sgid_index)"
    )]
    NotGlobal,
    /// Source and destination are of different IP versions.
    #[error("the source GID {sgid} and the destination GID {dgid} are of different IP versions")]
    GidVersions {
        /// Own GID.
        sgid: Gid,
        /// The peer's.
        dgid: Gid,
    },
    /// The destination GID is zero or a multicast group.
    #[error("the destination GID {0} is not the address of a port")]
    GidNotUnicast(Gid),
    /// The P_Key index is not 0.
    #[error("P_Key index {0} does not exist: the table holds the default P_Key only")]
    NoSuchPkey(u32),
    /// A parent domain of a parent domain.
    #[error("a parent domain is made of a PD that ibv_alloc_pd gave, and this one is a parent domain itself")]
    NestedParentDomain,
    /// An object of another open device.
    #[error("the {what} was made from another open device")]
    OtherDevice {
        /// Which object.
        what: &'static str,
    },
    /// Objects that were made from it still exist.
    #[error("the {what} is in use by {users} other objects")]
    InUse {
        /// Which object.
        what: &'static str,
        /// How many use it.
        users: usize,
    },
    /// An SRQ holds more than its new size.
    #[error("an SRQ of {asked} work requests is asked for, but it holds {held}")]
    SrqTooSmall {
        /// The size asked for.
        asked: u32,
        /// Work requests in it.
        held: u32,
    },
    /// An SRQ could not be made.
    #[error(transparent)]
    CreateSrq(#[from] CreateSrqError),
    /// No such SRQ.
    #[error(transparent)]
    UnknownSrq(#[from] UnknownSrq),
    /// A QP could not be attached to a multicast group, or detached.
    #[error(transparent)]
    Mcast(#[from] McastError),
    /// O_EXCL, and the XRC domain is open.
    #[error("the XRC domain of that file is open already, and O_EXCL was given")]
    XrcdExists,
    /// No O_CREAT, and the XRC domain is not open.
    #[error("no XRC domain is open with that file in this process, and O_CREAT was not given")]
    XrcdAbsent,
    /// Bytes that should be an IP header.
    #[error("the 40 bytes in front of the datagram hold no IP header: were they received with it?")]
    NoIpHeader,
    /// A packet to an address that the device does not have.
    #[error("the datagram was sent to {0}, which is not an address of the device")]
    NotOurs(Gid),
    /// The XRC domain has no such target.
    #[error("the XRC domain has no target {qpn} in this process")]
    NoTarget {
        /// The QPN asked for.
        qpn: Qpn,
    },
    /// The device does not have it.
    #[error("{0} is not provided by this device")]
    Unsupported(&'static str),
    /// The interface behind the device is gone.
    #[error("network interface {0} is gone")]
    InterfaceGone(String),
}

impl Error {
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Keeper(KeeperError::AddressInUse { .. }) => ErrorKind::Os(libc::EADDRINUSE),
            Error::Keeper(KeeperError::NoPortLeft) => ErrorKind::Os(libc::EADDRNOTAVAIL),
            Error::Keeper(KeeperError::NeedsKeeper) | Error::NoDevice(_) => ErrorKind::Os(libc::ENODEV),
            Error::NoRoute { .. } => ErrorKind::Os(libc::ENETUNREACH),
            Error::Connection(error) => match error {
                CmCallError::TooManyConnections
                | CmCallError::TooManyLookups
                | CmCallError::TooManyListeners => ErrorKind::NoRoom,
                CmCallError::InUse(_) => ErrorKind::Os(libc::EADDRINUSE),
                _ => ErrorKind::Invalid,
            },
            Error::CmState { .. } => ErrorKind::Invalid,
            Error::Keeper(_) | Error::Port(_) | Error::Forked | Error::InterfaceGone(_) => ErrorKind::Dead,
            Error::Os { source, .. } => source.raw_os_error().map_or(ErrorKind::Dead, ErrorKind::Os),
            Error::TooManyCqs { .. }
            | Error::Register(RegisterError::TooManyKeys { .. })
            | Error::AllocMw(_)
            | Error::DmFull { .. }
            | Error::CreateQp(CreateQpError::TooManyQps { .. })
            | Error::CreateSrq(CreateSrqError::TooManySrqs { .. }) => ErrorKind::NoRoom,
            // As the kernel has it.
            Error::XrcdAbsent => ErrorKind::Os(libc::EAGAIN),
            // ibv_advise_mr(3)
            Error::Local(LocalFault::Key(KeyFault::OtherPd { .. }) | LocalFault::NotWritable { .. }) => {
                ErrorKind::Os(libc::EPERM)
            }
            Error::Local(LocalFault::Key(_)) => ErrorKind::Os(libc::ENOENT),
            Error::NotMapped { .. }
            | Error::ReadOnly { .. }
            | Error::OutsideDm { .. }
            | Error::BadAddress(_)
            | Error::Local(LocalFault::Range(_)) => ErrorKind::BadAddress,
            Error::InUse { .. }
            | Error::Reregister(ReregisterError::WindowsBound { .. })
            | Error::Deregister(DeregisterError::WindowsBound { .. }) => ErrorKind::Busy,
            Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::GidEmpty(_) => ErrorKind::Absent,
            Error::Modify(_)
            | Error::SelectiveRepeat(_)
            | Error::CreateQp(_)
            | Error::Register(_)
            | Error::Deregister(_)
            | Error::Reregister(_)
            | Error::NotChangeable
            | Error::OtherContext(_)
            | Error::NothingAdvised
            | Error::NotPersistent { .. }
            | Error::NotOnDemand { .. }
            | Error::DmNotZeroBased
            | Error::DmabufAccess(_)
            | Error::DmabufOffset { .. }
            | Error::Key(_)
            | Error::UnknownQp(_)
            | Error::OutOfRange { .. }
            | Error::CqTooSmall { .. }
            | Error::SrqTooSmall { .. }
            | Error::UnknownSrq(_)
            | Error::Mcast(_)
            | Error::XrcdExists
            | Error::NoTarget { .. }
            | Error::NoIpHeader
            | Error::NotOurs(_)
            | Error::NestedParentDomain
            | Error::OtherDevice { .. }
            | Error::NoSuchPort(_)
            | Error::GidIndexRange { .. }
            | Error::NotGlobal
            | Error::GidVersions { .. }
            | Error::GidNotUnicast(_)
            | Error::NoSuchPkey(_) => ErrorKind::Invalid,
        }
    }
}

/// Why a work request was not posted (`ibv_post_send(3)`, `ibv_post_recv(3)`).
#[derive(Debug, Error)]
#[error("work request {index} of the list: {cause}")]
pub struct PostError {
    /// How many work requests before it were posted; it and the rest were not.
    pub index: usize,
    /// Why.
    pub cause: PostCause,
}

/// What is wrong with a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PostCause {
    #[error("the QP is in {state:?}, where {queue} can't be posted")]
    WrongState { state: ferroce_core::QpState, queue: &'static str },
    #[error("the queue holds {limit} work requests, all it was made for: poll the CQ first")]
    QueueFull { limit: u32 },
    #[error("{num_sge} scatter/gather elements, but the QP was made for {limit}")]
    TooManySges { num_sge: usize, limit: u32 },
    #[error("{length} bytes inline, but the QP was made for {limit}")]
    InlineTooLong { length: u64, limit: u32 },
    #[error("inline data can't be used with {0}")]
    InlineNotAllowed(&'static str),
    #[error("{length} bytes are more than the largest message, {limit}")]
    TooLong { length: u64, limit: u64 },
    #[error("this QP can't do {0}")]
    OpNotSupported(&'static str),
    #[error("a FLUSH sends nothing and receives nothing, so it has no list")]
    FlushWithList,
    #[error("a FLUSH has to go somewhere: to global visibility, to persistence, or both")]
    FlushNowhere,
    #[error("a memory window can't give {0:?}")]
    MwAccess(AccessFlags),
    #[error("the QP has no receive queue of its own: post to its SRQ")]
    NoReceiveQueue,
    #[error("the device was opened before fork(2) and is dead in the child")]
    Forked,
}

impl PostCause {
    /// Its kind.
    pub fn kind(self) -> ErrorKind {
        match self {
            PostCause::QueueFull { .. } => ErrorKind::NoRoom,
            PostCause::Forked => ErrorKind::Dead,
            PostCause::OpNotSupported(_) => ErrorKind::Invalid,
            _ => ErrorKind::Invalid,
        }
    }
}
