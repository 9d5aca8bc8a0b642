//! An open device, and the objects made from it directly.

use crate::attr::PortAttr;
use crate::cq::{CompChannel, Cq, CqSpec};
use crate::device::Device;
use crate::dm::{Dm, DmUsed};
use crate::engine::Engine;
use crate::error::Error;
use crate::events::{AsyncEventRecord, AsyncEvents};
use crate::limits::MAX_PD;
use crate::pd::Pd;
use crate::td::Td;
use crate::xrcd::{Xrcd, XrcdFlags};
use ferroce_core::Counter;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// An open device (`ibv_open_device(3)`). Objects made from it keep it open.
#[derive(Clone, Debug)]
pub struct Context {
    shared: Arc<ContextShared>,
}

/// What the objects of a context share.
#[derive(Debug)]
pub(crate) struct ContextShared {
    pub(crate) device: Device,
    pub(crate) engine: Arc<Engine>,
    pub(crate) events: Arc<AsyncEvents>,
    pds: AtomicU32,
    dm: DmUsed,
}

impl Context {
    pub(crate) fn open(device: Device) -> Result<Context, Error> {
        let engine = Engine::shared()?;
        let events = Arc::new(AsyncEvents::new()?);
        engine.follow_port(device.clone(), &events);
        tracing::debug!(device = device.name(), "opened");
        Ok(Context {
            shared: Arc::new(ContextShared {
                device,
                engine,
                events,
                pds: AtomicU32::new(0),
                dm: DmUsed::default(),
            }),
        })
    }

    /// The device it was opened from.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Makes a protection domain.
    pub fn alloc_pd(&self) -> Result<Pd, Error> {
        self.shared.check_alive()?;
        let users = self.shared.pds.fetch_add(1, Ordering::AcqRel);
        if users >= MAX_PD {
            self.shared.pds.fetch_sub(1, Ordering::AcqRel);
            return Err(Error::OutOfRange {
                what: "number of PDs",
                asked: u64::from(users) + 1,
                limit: u64::from(MAX_PD),
            });
        }
        Ok(Pd::new(Arc::clone(&self.shared)))
    }

    /// Makes device memory of `length` bytes (`ibv_alloc_dm(3)`).
    ///
    /// # Errors
    /// None or too many bytes; as many are not left.
    pub fn alloc_dm(&self, length: u64) -> Result<Arc<Dm>, Error> {
        self.shared.check_alive()?;
        Dm::new(Arc::clone(&self.shared), length)
    }

    /// Makes a thread domain.
    pub fn alloc_td(&self) -> Result<Td, Error> {
        self.shared.check_alive()?;
        Ok(Td::new(Arc::clone(&self.shared)))
    }

    /// Makes a completion channel.
    pub fn create_comp_channel(&self) -> Result<CompChannel, Error> {
        CompChannel::new()
    }

    /// Makes a CQ.
    ///
    /// # Errors
    /// A size or a completion vector that the device does not have; too many CQs.
    pub fn create_cq(&self, spec: &CqSpec<'_>) -> Result<Cq, Error> {
        self.shared.check_alive()?;
        Cq::new(Arc::clone(&self.shared), spec)
    }

    /// Nanoseconds since the device's clock began, as it was opened first in this process. Completions of a CQ with
    /// stamps tell their time by it (`ibv_query_rt_values_ex(3)`).
    pub fn clock_ns(&self) -> Result<u64, Error> {
        self.shared.check_alive()?;
        Ok(self.shared.engine.clock().elapsed().as_nanos() as u64)
    }

    /// Attributes of the port `port_num`, which is 1, with what was counted in this process.
    pub fn port_attr(&self, port_num: u32) -> Result<PortAttr, Error> {
        let attr = self.device().port_attr(port_num)?;
        if self.shared.is_dead() {
            return Ok(attr);
        }
        let [bad_pkeys, bad_qkeys] = self.shared.engine.counters([Counter::DropPkey, Counter::DropQkey]);
        Ok(PortAttr { bad_pkeys, bad_qkeys, ..attr })
    }

    /// Opens an XRC domain: a new one without a file, the one of the file otherwise.
    ///
    /// # Errors
    /// With a file: nobody has the domain open and `flags` do not say to make it; somebody has, and they say that nobody
    /// may.
    pub fn open_xrcd(&self, file: Option<BorrowedFd<'_>>, flags: XrcdFlags) -> Result<Xrcd, Error> {
        self.shared.check_alive()?;
        Xrcd::open(Arc::clone(&self.shared), file, flags)
    }

    /// The descriptor that becomes readable with an asynchronous event.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        self.shared.events.fd()
    }

    /// Takes the next asynchronous event, waiting as the descriptor's O_NONBLOCK says. The object's
    /// `ack_async_event` has to be called for it sooner or later, and until then it can't be closed.
    pub fn next_async_event(&self) -> Result<AsyncEventRecord, Error> {
        self.shared.events.pop()
    }
}

impl ContextShared {
    /// Whether it belongs to the parent of this process.
    pub(crate) fn is_dead(&self) -> bool {
        self.engine.is_dead()
    }

    /// Refuses what a forked child asks of its parent's device.
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        if self.is_dead() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Device memory is made.
    pub(crate) fn take_dm(&self, length: u64) -> Result<(), Error> {
        self.dm.take(length)
    }

    /// Device memory is gone.
    pub(crate) fn release_dm(&self, length: u64) {
        self.dm.release(length);
    }

    /// A PD is gone.
    pub(crate) fn release_pd(&self) {
        self.pds.fetch_sub(1, Ordering::AcqRel);
    }
}
