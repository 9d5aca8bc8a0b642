//! The process's sockets by their numbers.

use super::socket::Socket;
use ferroce_abi::errno::Errno;
use libc::c_int;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

static SOCKETS: Mutex<BTreeMap<c_int, Arc<Socket>>> = Mutex::new(BTreeMap::new());

pub(super) fn insert(socket: Socket) -> c_int {
    let fd = socket.fd();
    SOCKETS.lock().insert(fd, Arc::new(socket));
    fd
}

/// The socket, or EBADF.
pub(super) fn find(fd: c_int) -> Result<Arc<Socket>, Errno> {
    SOCKETS.lock().get(&fd).cloned().ok_or(Errno(libc::EBADF))
}

pub(super) fn remove(fd: c_int) -> Result<Arc<Socket>, Errno> {
    SOCKETS.lock().remove(&fd).ok_or(Errno(libc::EBADF))
}
