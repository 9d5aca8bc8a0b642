//! Thread domains (`ibv_alloc_td(3)`): a program's promise about threads, which the verbs take note of.

use crate::context::ContextShared;
use crate::error::Error;
use std::sync::Arc;

/// A thread domain.
#[derive(Debug)]
pub struct Td {
    /// Its users hold it, too.
    shared: Arc<()>,
    context: Arc<ContextShared>,
}

/// Counts a parent domain as a user of its thread domain for as long as it lives.
#[derive(Debug)]
pub(crate) struct TdUser {
    _shared: Arc<()>,
}

impl Td {
    pub(crate) fn new(context: Arc<ContextShared>) -> Td {
        Td { shared: Arc::new(()), context }
    }

    pub(crate) fn user(&self) -> TdUser {
        TdUser { _shared: Arc::clone(&self.shared) }
    }

    /// Whether it was made from `context`.
    pub(crate) fn is_of(&self, context: &Arc<ContextShared>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// Makes it ready to be dropped. Fails while parent domains are made of it (EBUSY).
    pub fn close(&self) -> Result<(), Error> {
        match Arc::strong_count(&self.shared) - 1 {
            0 => Ok(()),
            users => Err(Error::InUse { what: "thread domain", users }),
        }
    }
}
