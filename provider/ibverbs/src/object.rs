//! The blocks behind the pointers that programs hold: a public structure and, behind it, what is ours.

use crate::errno::Errno;
use crate::pointer;
use libc::{pthread_cond_t, pthread_mutex_t};
use std::mem::MaybeUninit;
use std::ptr;

/// A block that begins with a public structure.
///
/// # Safety
/// The type is `repr(C)` and its first field is (or begins with) an `Abi`. Once its pointer is handed out, everything in
/// it that changes is an atomic or behind a lock.
pub(crate) unsafe trait Object: Sized {
    /// The public structure.
    type Abi;
}

/// Hands an object to the program: it lives until [`take_back`].
pub(crate) fn hand_out<O: Object>(object: O) -> *mut O::Abi {
    Box::into_raw(Box::new(object)).cast()
}

/// Borrows an object of the program's.
///
/// # Safety
/// The C contract: `pointer` is null or came from [`hand_out`] or [`Room::fill`] for an `O`, and the object outlives `'a`.
pub(crate) unsafe fn borrow<'a, O: Object>(pointer: *const O::Abi) -> Result<&'a O, Errno> {
    // SAFETY: an O lies at the pointer, by the caller's promise and O's layout.
    unsafe { pointer::borrow(pointer.cast::<O>()) }
}

/// Frees an object.
///
/// # Safety
/// The C contract: `pointer` came from [`hand_out`] or [`Room::fill`] for an `O`, and nobody uses the object any more.
pub(crate) unsafe fn take_back<O: Object>(pointer: *mut O::Abi) {
    // SAFETY: the block was made by Box for an O, by the caller's promise.
    drop(unsafe { Box::from_raw(pointer.cast::<O>()) });
}

/// Room for an object that has to know its own address: its events carry it.
pub(crate) struct Room<O>(Box<MaybeUninit<O>>);

impl<O: Object> Room<O> {
    pub(crate) fn new() -> Self {
        Room(Box::new_uninit())
    }

    /// The address as events carry it.
    pub(crate) fn cookie(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Puts the object there and hands it to the program.
    pub(crate) fn fill(self, object: O) -> *mut O::Abi {
        Box::into_raw(Box::write(self.0, object)).cast()
    }
}

/// The object that an event is about.
pub(crate) fn by_cookie<O: Object>(cookie: u64) -> *mut O::Abi {
    ptr::with_exposed_provenance_mut::<O>(cookie as usize).cast()
}

/// A mutex that nobody uses: the structures have room for one, and header functions of old initialise it.
pub(crate) const UNUSED_MUTEX: pthread_mutex_t = libc::PTHREAD_MUTEX_INITIALIZER;
/// As [`UNUSED_MUTEX`].
pub(crate) const UNUSED_COND: pthread_cond_t = libc::PTHREAD_COND_INITIALIZER;
/// The `handle` of objects that no kernel knows.
pub(crate) const NO_HANDLE: u32 = 0;
