//! Who uses the keeper.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::board::Board;
use crate::protocol::Message;
use crate::talk::{TalkError, ask, connect};
use crate::{KeeperError, KeeperOptions};

/// One process with a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// Its process id.
    pub pid: u32,
    /// Its slot; its QPNs start at `slot << 16`.
    pub slot: u8,
    /// Its name as in `/proc/PID/comm`.
    pub name: String,
    /// When it got the slot.
    pub since: SystemTime,
    /// Its counters at this moment, in the order of `ferroce_core::Counter`.
    pub counters: Vec<u64>,
}

/// The processes that have slots, by slot. Empty when no keeper runs; none is started.
///
/// # Errors
/// [`KeeperError`] when one runs and gives no sensible answer.
pub fn clients(options: &KeeperOptions) -> Result<Vec<ClientInfo>, KeeperError> {
    let answer =
        connect(&options.socket_name()).and_then(|channel| ask(&channel, options, 0, &Message::Inspect, &[]));
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(TalkError::Gone) => return Ok(Vec::new()),
        Err(TalkError::Final(error)) => return Err(error),
    };
    let (Message::BoardAttached, Some(fd)) = (&answer.message, answer.fds.pop()) else {
        let answer = format!("{:?}", answer.message);
        return Err(KeeperError::Unexpected { question: "a look at the board", answer });
    };
    Ok(list(&Board::open(fd)?))
}

fn list(board: &Board) -> Vec<ClientInfo> {
    let owned = board.slots().skip(1).filter(|(_, record)| record.owner() != 0);
    let clients = owned.map(|(slot, record)| ClientInfo {
        pid: record.owner(),
        slot: u8::try_from(slot).expect("the board has 256 records"),
        name: record.name(),
        since: UNIX_EPOCH + Duration::from_nanos(record.since_ns()),
        counters: record.counters().iter().map(|counter| counter.load(Ordering::Relaxed)).collect(),
    });
    clients.collect()
}
