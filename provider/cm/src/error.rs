//! Why a call was refused.

use crate::limits::{MAX_CONNECTIONS, MAX_LISTENERS, MAX_RESOLUTIONS};
use crate::{CommId, ListenAddr};
use ferroce_wire::cm::PrivateDataTooLong;
use thiserror::Error;

/// Why a call to the connection manager was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CmCallError {
    /// There is nothing of that ID.
    #[error("there is no connection {0}")]
    Unknown(CommId),
    /// The connection is not in a state for it.
    #[error("connection {id} is {state}, which does not allow to {call}")]
    State {
        /// The connection.
        id: CommId,
        /// Its state.
        state: &'static str,
        /// What was to be done.
        call: &'static str,
    },
    /// More private data than the message has room for.
    #[error(transparent)]
    PrivateData(#[from] PrivateDataTooLong),
    /// All connections are in use.
    #[error("{MAX_CONNECTIONS} connections are open: close some first")]
    TooManyConnections,
    /// All lookups are in use.
    #[error("{MAX_RESOLUTIONS} datagram services are being looked up: wait for some to be answered")]
    TooManyLookups,
    /// All listeners are in use.
    #[error("{MAX_LISTENERS} listeners are open: close some first")]
    TooManyListeners,
    /// Another listener has the same service and addresses.
    #[error("somebody listens on {} already", .0.service)]
    InUse(ListenAddr),
}
