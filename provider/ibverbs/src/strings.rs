//! `ibv_*_str`: the short texts that tools print and people search for.

use libc::{c_char, c_int};
use std::ffi::CStr;

/// The text at `value` of a table that begins at 0.
fn text(table: &[&'static CStr], value: c_int) -> *const c_char {
    let found = usize::try_from(value).ok().and_then(|index| table.get(index));
    found.copied().unwrap_or(UNKNOWN).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    text(&WC_STATUS, status)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    text(&EVENT_TYPE, event)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_node_type_str(node_type: c_int) -> *const c_char {
    text(&NODE_TYPE, node_type)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_port_state_str(port_state: c_int) -> *const c_char {
    text(&PORT_STATE, port_state)
}

/// The private `ibv_wr_opcode_str`, which providers put into their messages.
#[unsafe(no_mangle)]
extern "C" fn ferroce_wr_opcode_str(opcode: c_int) -> *const c_char {
    text(&WR_OPCODE, opcode)
}

const UNKNOWN: &CStr = c"unknown";

/// By `enum ibv_wc_status`.
static WC_STATUS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

/// By `enum ibv_event_type`.
static EVENT_TYPE: [&CStr; 21] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
    c"Device link speed change",
];

/// By `enum ibv_node_type`, which begins at 1.
static NODE_TYPE: [&CStr; 8] = [
    UNKNOWN,
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// By `enum ibv_port_state`.
static PORT_STATE: [&CStr; 6] =
    [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];

/// By `enum ibv_wr_opcode`.
static WR_OPCODE: [&CStr; 16] = [
    c"rdma-write",
    c"rdma-write-with-imm",
    c"send",
    c"send-with-imm",
    c"rdma-read",
    c"atomic-cmp-and-swp",
    c"atomic-fetch-and-add",
    c"local-inv",
    c"bind-mw",
    c"send-with-inv",
    c"tso",
    c"driver1",
    UNKNOWN,
    UNKNOWN,
    c"flush",
    c"atomic-write",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: *const c_char) -> &'static str {
        // SAFETY: every text is a static C string.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    }

    #[test]
    fn values_meet_their_texts() {
        assert_eq!(shown(ibv_wc_status_str(12)), "transport retry counter exceeded");
        assert_eq!(shown(ibv_event_type_str(16)), "last WQE reached");
        assert_eq!(shown(ibv_node_type_str(1)), "InfiniBand channel adapter");
        assert_eq!(shown(ibv_port_state_str(4)), "active");
        assert_eq!(shown(ferroce_wr_opcode_str(9)), "send-with-inv");
    }

    #[test]
    fn any_other_value_is_unknown() {
        for value in [-1, c_int::MIN, 24, c_int::MAX] {
            assert_eq!(shown(ibv_wc_status_str(value)), "unknown");
            assert_eq!(shown(ibv_port_state_str(value)), "unknown");
        }
        assert_eq!(shown(ibv_node_type_str(0)), "unknown");
    }
}
