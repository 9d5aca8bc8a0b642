//! XRC domains, and the targets in them.

use crate::context::ContextShared;
use crate::error::Error;
use crate::pd::Pd;
use crate::qp::Qp;
use ferroce_core::XrcdId;
use ferroce_wire::Qpn;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// An XRC domain (`ibv_open_xrcd(3)`): targets receive for the SRQs of theirs.
///
/// A domain with a file is shared by all of this process that opens it with that file. Other processes cannot share
/// it: a target's packets come to one process.
#[derive(Debug)]
pub struct Xrcd {
    shared: Arc<XrcdShared>,
    /// SRQs and handles to targets that were made from this one.
    users: Arc<AtomicUsize>,
    context: Arc<ContextShared>,
}

/// What is the same for all who have opened it.
#[derive(Debug)]
struct XrcdShared {
    id: XrcdId,
}

/// How a domain is opened with a file; the bits of `open(2)` that `ibv_open_xrcd(3)` knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XrcdFlags {
    /// O_CREAT: make it if nobody has it open.
    pub create: bool,
    /// O_EXCL: fail if somebody has it open.
    pub exclusive: bool,
}

/// A file, as the kernel knows it, and the device: what makes two domains the same.
type Key = (u64, u64, u32);

/// The domains with files that are open in this process.
static SHARED: Mutex<Option<HashMap<Key, Weak<XrcdShared>>>> = Mutex::new(None);
/// Numbers domains over all contexts of the process, since they share one engine.
static NEXT: AtomicU32 = AtomicU32::new(1);

impl Xrcd {
    pub(crate) fn open(
        context: Arc<ContextShared>,
        file: Option<BorrowedFd<'_>>,
        flags: XrcdFlags,
    ) -> Result<Xrcd, Error> {
        let make = || {
            let id = XrcdId(NEXT.fetch_add(1, Ordering::Relaxed));
            Arc::new(XrcdShared { id })
        };
        let users = Arc::default();
        let Some(file) = file else { return Ok(Xrcd { shared: make(), users, context }) };
        let stat = rustix::fs::fstat(file)
            .map_err(|errno| Error::Os { doing: "looking at an XRC domain's file", source: errno.into() })?;
        let key = (stat.st_dev, stat.st_ino, context.device.interface_index());
        let mut guard = SHARED.lock();
        let domains = guard.get_or_insert_default();
        domains.retain(|_, domain| domain.strong_count() > 0);
        let shared = match domains.get(&key).and_then(Weak::upgrade) {
            Some(_) if flags.exclusive => return Err(Error::XrcdExists),
            Some(shared) => shared,
            None if !flags.create => return Err(Error::XrcdAbsent),
            None => {
                let shared = make();
                domains.insert(key, Arc::downgrade(&shared));
                shared
            }
        };
        Ok(Xrcd { shared, users, context })
    }

    pub(crate) fn id(&self) -> XrcdId {
        self.shared.id
    }

    /// Makes a target (XRC_TGT) in RESET. `cookie` is what asynchronous events about it carry.
    pub fn create_target(&self, cookie: u64) -> Result<Qp, Error> {
        self.context.check_alive()?;
        Qp::new_target(&self.context, self.user(), self.id(), cookie)
    }

    /// Another handle to the target `qpn` of this domain (`ibv_open_qp(3)`). The target goes when all its handles
    /// have.
    pub fn open_target(&self, qpn: Qpn, cookie: u64) -> Result<Qp, Error> {
        self.context.check_alive()?;
        Qp::open_target(&self.context, self.user(), self.id(), qpn, cookie)
    }

    /// Whether it belongs to the same open device as `pd`.
    pub fn same_context(&self, pd: &Pd) -> bool {
        Arc::ptr_eq(&self.context, pd.context())
    }

    /// Makes it ready to be dropped. Fails while SRQs, or handles to targets, that were made from it exist
    /// (`ibv_close_xrcd(3)`: EBUSY).
    pub fn close(&self) -> Result<(), Error> {
        self.context.check_alive()?;
        match self.users.load(Ordering::Acquire) {
            0 => Ok(()),
            users => Err(Error::InUse { what: "XRC domain", users }),
        }
    }

    /// One more user.
    pub(crate) fn user(&self) -> XrcdUser {
        self.users.fetch_add(1, Ordering::AcqRel);
        XrcdUser { users: Arc::clone(&self.users), _domain: Arc::clone(&self.shared) }
    }
}

/// Counts an object as a user of its domain, and keeps the domain, for as long as it lives.
#[derive(Debug)]
pub(crate) struct XrcdUser {
    users: Arc<AtomicUsize>,
    _domain: Arc<XrcdShared>,
}

impl Drop for XrcdUser {
    fn drop(&mut self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}
