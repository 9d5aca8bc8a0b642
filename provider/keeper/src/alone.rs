//! Without a keeper: one process has the port for itself.

use std::os::fd::OwnedFd;

use ferroce_port::{Sharing, open_receive_socket};

use crate::KeeperError;
use crate::board::Board;
use crate::owner::Owner;

/// The slot of a process that has the port for itself; any would do, as all packets come to its only socket.
pub(crate) const ALONE_SLOT: u8 = 1;

/// The port's only socket, and a board that nobody else sees.
pub(crate) fn open(port: u16) -> Result<(OwnedFd, Board), KeeperError> {
    let socket = open_receive_socket(port, Sharing::Exclusive)?;
    let board = Board::create()?;
    if let Some(record) = board.slot(ALONE_SLOT.into()) {
        record.grant(&Owner::from_now(std::process::id()));
    }
    Ok((socket, board))
}
