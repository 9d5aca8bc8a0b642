//! Device memory: memory of the card's own, which programs reach by copying and peers through regions.
//!
//! This card's memory is its process's, so it is no faster than the program's own; what it is for is programs that want it.

use crate::context::ContextShared;
use crate::error::Error;
use crate::limits::MAX_DM_SIZE;
use crate::memory::AppMemory;
use ferroce_core::{Memory, Place};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Device memory, zero at first (`ibv_alloc_dm(3)`). Regions in it keep it.
#[derive(Debug)]
pub struct Dm {
    /// The engine and the program change it at the same time, so it is only ever copied from and to.
    words: Box<[AtomicU64]>,
    length: u64,
    context: Arc<ContextShared>,
}

impl Dm {
    pub(crate) fn new(context: Arc<ContextShared>, length: u64) -> Result<Arc<Dm>, Error> {
        if length == 0 || length > MAX_DM_SIZE {
            return Err(Error::OutOfRange { what: "length", asked: length, limit: MAX_DM_SIZE });
        }
        context.take_dm(length)?;
        let words = (0..length.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Dm { words, length, context }))
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Copies `bytes` to where `offset` is (`ibv_memcpy_to_dm`).
    ///
    /// # Errors
    /// They do not all lie in it.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let addr = self.range(offset, bytes.len() as u64)?;
        Ok(AppMemory::Direct.write(Place::mapped(addr), bytes)?)
    }

    /// Copies bytes from where `offset` is (`ibv_memcpy_from_dm`).
    ///
    /// # Errors
    /// They do not all lie in it.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let addr = self.range(offset, bytes.len() as u64)?;
        Ok(AppMemory::Direct.read(Place::mapped(addr), bytes)?)
    }

    /// Makes it ready to be dropped. Fails while regions are in it (`ibv_free_dm(3)`: EBUSY).
    pub fn close(self: &Arc<Dm>) -> Result<(), Error> {
        match Arc::strong_count(self) - 1 {
            0 => Ok(()),
            users => Err(Error::InUse { what: "device memory", users }),
        }
    }

    pub(crate) fn is_of(&self, context: &Arc<ContextShared>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// The address of `length` bytes from `offset` on.
    pub(crate) fn range(&self, offset: u64, length: u64) -> Result<u64, Error> {
        if offset > self.length || length > self.length - offset {
            return Err(Error::OutsideDm { offset, length, size: self.length });
        }
        Ok(self.words.as_ptr() as u64 + offset)
    }
}

impl Drop for Dm {
    fn drop(&mut self) {
        self.context.release_dm(self.length);
    }
}

/// How much device memory of a context is in use.
#[derive(Debug, Default)]
pub(crate) struct DmUsed(AtomicU64);

impl DmUsed {
    pub(crate) fn take(&self, length: u64) -> Result<(), Error> {
        let free = |used: u64| used.checked_add(length).filter(|used| *used <= MAX_DM_SIZE);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, free) {
            Ok(_) => Ok(()),
            Err(used) => Err(Error::DmFull { asked: length, left: MAX_DM_SIZE - used }),
        }
    }

    pub(crate) fn release(&self, length: u64) {
        self.0.fetch_sub(length, Ordering::AcqRel);
    }
}

const WORD: u64 = 8;
