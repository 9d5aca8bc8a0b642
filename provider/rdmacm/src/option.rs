//! `rdma_set_option`.

use crate::id::parts;
use crate::layout::RdmaCmId;
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use libc::{c_int, c_void};

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_set_option(
    id: *mut RdmaCmId,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: the C contract.
    let value = unsafe { pointer::borrow_slice(optval.cast::<u8>(), optlen) };
    // SAFETY: the C contract.
    minus_one(value.and_then(|value| unsafe { set(id, level, optname, value) }))
}

unsafe fn set(id: *mut RdmaCmId, level: c_int, option: c_int, value: &[u8]) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    let cm = &private.cm;
    match (level, option, value) {
        (LEVEL_ID, TOS, [tos]) => cm.set_traffic_class(*tos)?,
        (LEVEL_ID, REUSEADDR, value) => cm.set_shares_address(switch(value)?)?,
        (LEVEL_ID, AFONLY, value) => cm.set_v6_only(switch(value)?)?,
        (LEVEL_ID, ACK_TIMEOUT, [code]) => cm.set_ack_timeout(*code)?,
        (LEVEL_ID, TOS | ACK_TIMEOUT, _) => return Err(Errno::INVALID),
        // The path of a subnet manager; Ethernet has none.
        (LEVEL_IB, PATH, _) => return Err(Errno::UNSUPPORTED),
        _ => return Err(Errno(libc::ENOSYS)),
    }
    Ok(())
}

fn switch(value: &[u8]) -> Result<bool, Errno> {
    let bytes: [u8; size_of::<c_int>()] = value.try_into().map_err(|_| Errno::INVALID)?;
    Ok(c_int::from_ne_bytes(bytes) != 0)
}

const LEVEL_ID: c_int = 0;
const LEVEL_IB: c_int = 1;
const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;
const PATH: c_int = 1;
