//! What can go wrong with a request, on either side, with its class, its NAK and its completion status.
//!
//! Each variant's text becomes the [`crate::Event::Reason`] of the NAK or the error completion it causes.

use crate::regions::{BindFault, InvalidateFault, LocalFault, RemoteFault};
use crate::{AccessFlags, BadAddress, PdId, QpType, Srqn, WcStatus};
use ferroce_wire::{NakCode, Psn, Qpn};
use std::net::IpAddr;
use thiserror::Error;

/// A local buffer cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum SgeFault {
    #[error("{0}")]
    Key(#[from] LocalFault),
    #[error("{0}")]
    Address(#[from] BadAddress),
}

/// Why a send WR failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum RequesterFault {
    #[error("a buffer of the send WR cannot be used: {0}")]
    Local(#[from] SgeFault),
    #[error("the send WR's message of {length} bytes is longer than the {max} this device sends")]
    TooLong { length: u64, max: u32 },
    #[error("an atomic works on 8 bytes but the send WR's list holds {length}")]
    AtomicLength { length: u64 },
    #[error(
        "the QP was given max_rd_atomic 0, so it can do no READ, no atomic, no FLUSH and no atomic write"
    )]
    NoReadAtomic,
    #[error("the send WR has no address handle, without which a UD QP cannot send")]
    NoAddressHandle,
    #[error("the address handle belongs to PD {}, which is not the QP's", .pd.0)]
    AddressHandleOfOtherPd { pd: PdId },
    #[error("a datagram of {length} bytes does not fit a packet: the port's MTU is {mtu}")]
    DatagramTooLong { length: u64, mtu: u32 },
    #[error("the send WR names no SRQ, which an XRC_INI QP cannot send without")]
    NoSrq,
    #[error("{op} is nothing that QPs of type {qp_type} do")]
    NotInService { op: &'static str, qp_type: QpType },
    #[error("the key cannot be invalidated: {0}")]
    Invalidate(#[from] InvalidateFault),
    #[error("the memory window cannot be bound: {0}")]
    Bind(#[from] BindFault),
    #[error("{cause} at PSN {psn}, and all {retry_cnt} retries are used up")]
    RetriesExceeded { psn: Psn, retry_cnt: u8, cause: Loss },
    #[error("the peer had no receive WQE for PSN {psn}, and all {rnr_retry} RNR retries are used up")]
    RnrRetriesExceeded { psn: Psn, rnr_retry: u8 },
    #[error("the peer answered PSN {psn} with NAK {code}")]
    Remote { psn: Psn, code: NakCode },
    #[error("the peer's response to PSN {psn} makes no sense: {fault}")]
    BadResponse { psn: Psn, fault: BadResponse },
}

/// How the requester learned that something was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum Loss {
    #[error("no acknowledgement before the local ACK timeout")]
    Timeout,
    #[error("NAK PSN sequence error")]
    SequenceNak,
    #[error("a response to a READ or atomic is missing")]
    ImpliedNak,
}

/// What is wrong with a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum BadResponse {
    #[error("{opcode} does not answer the request with that PSN")]
    Opcode { opcode: &'static str },
    #[error(
        "{opcode} carried {got} bytes where {expected} belong; do the two ends disagree on the path MTU?"
    )]
    Length { opcode: &'static str, got: usize, expected: usize },
    #[error("AETH syndrome {syndrome:#04x} has no meaning here")]
    Syndrome { syndrome: u8 },
}

impl RequesterFault {
    /// The completion's status (transport errors as the verbs name them).
    pub(crate) fn status(self) -> WcStatus {
        match self {
            RequesterFault::Local(_) => WcStatus::LocProtErr,
            RequesterFault::TooLong { .. }
            | RequesterFault::DatagramTooLong { .. }
            | RequesterFault::AtomicLength { .. } => WcStatus::LocLenErr,
            RequesterFault::NoReadAtomic
            | RequesterFault::NotInService { .. }
            | RequesterFault::NoAddressHandle
            | RequesterFault::AddressHandleOfOtherPd { .. }
            | RequesterFault::NoSrq
            | RequesterFault::Invalidate(_) => WcStatus::LocQpOpErr,
            RequesterFault::Bind(_) => WcStatus::MwBindErr,
            RequesterFault::RetriesExceeded { .. } => WcStatus::RetryExcErr,
            RequesterFault::RnrRetriesExceeded { .. } => WcStatus::RnrRetryExcErr,
            RequesterFault::Remote { code: NakCode::InvalidRequest, .. } => WcStatus::RemInvReqErr,
            RequesterFault::Remote { code: NakCode::RemoteAccessError, .. } => WcStatus::RemAccessErr,
            RequesterFault::Remote { .. } => WcStatus::RemOpErr,
            RequesterFault::BadResponse { .. } => WcStatus::BadRespErr,
        }
    }

    /// Our `vendor_err`: one number for each reason.
    pub(crate) fn code(self) -> u32 {
        match self {
            RequesterFault::Local(SgeFault::Key(_)) => 0x01,
            RequesterFault::Local(SgeFault::Address(_)) => 0x02,
            RequesterFault::TooLong { .. } => 0x03,
            RequesterFault::AtomicLength { .. } => 0x04,
            RequesterFault::NoReadAtomic => 0x05,
            RequesterFault::Invalidate(_) => 0x06,
            RequesterFault::Bind(_) => 0x07,
            RequesterFault::NotInService { .. } => 0x0a,
            RequesterFault::NoAddressHandle => 0x0b,
            RequesterFault::DatagramTooLong { .. } => 0x0c,
            RequesterFault::NoSrq => 0x0d,
            RequesterFault::AddressHandleOfOtherPd { .. } => 0x0e,
            RequesterFault::RetriesExceeded { .. } => 0x10,
            RequesterFault::RnrRetriesExceeded { .. } => 0x11,
            RequesterFault::Remote { .. } => 0x12,
            RequesterFault::BadResponse { .. } => 0x13,
        }
    }
}

/// Classes of responder errors (IBTA table 63, as far as it concerns RC).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// The responder's own WQE is at fault.
    A,
    /// The requester may try again.
    B,
    /// The request is at fault.
    C,
    /// The message was delivered, but its invalidation failed.
    J,
}

/// Why a request was not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum ResponderFault {
    #[error("{opcode} at PSN {psn} found no receive WQE")]
    NotReady { opcode: &'static str, psn: Psn },
    #[error("{opcode} arrived while {expected}")]
    Sequence { opcode: &'static str, expected: &'static str },
    #[error(
        "FLUSH with the placement type {placement:#x} and the selectivity {selectivity}, which means nothing"
    )]
    FlushType { placement: u8, selectivity: u8 },
    #[error("{opcode} needs the access right {missing:?}, which the QP's qp_access_flags do not give")]
    NotEnabled { opcode: &'static str, missing: AccessFlags },
    #[error("{opcode} on address {va:#x}, which is not a multiple of 8")]
    Misaligned { opcode: &'static str, va: u64 },
    #[error(
        "{opcode} while {limit} READs, atomics, FLUSHes and atomic writes are outstanding, as many as max_dest_rd_atomic allows"
    )]
    TooManyReadAtomics { opcode: &'static str, limit: u8 },
    #[error(
        "{opcode} carried {got} bytes but this QP's path MTU is {mtu}: the two ends disagree on the MTU, \
         or the peer splits messages wrongly"
    )]
    PacketLength { opcode: &'static str, got: usize, mtu: u32 },
    #[error("{opcode} carried {pad} pad bytes after {got} bytes of payload")]
    Pad { opcode: &'static str, got: usize, pad: u8 },
    #[error("{opcode}: the RETH announced {announced} bytes and the packets carried {got}")]
    DmaLength { opcode: &'static str, announced: u32, got: u64 },
    #[error("{opcode} of {length} bytes is longer than the {max} this device takes")]
    TooLong { opcode: &'static str, length: u64, max: u32 },
    #[error("a message of at least {got} bytes came to a receive WQE of {room}")]
    RecvTooSmall { got: u64, room: u64 },
    #[error("a buffer of the receive WQE cannot be used: {0}")]
    Recv(#[from] SgeFault),
    #[error("{opcode}: {fault}")]
    RemoteKey { opcode: &'static str, fault: RemoteFault },
    #[error("{opcode}: {fault}")]
    RemoteAddress { opcode: &'static str, fault: BadAddress },
    #[error("{opcode} with the Q_Key {got:#010x}, which is not this QP's")]
    QKey { opcode: &'static str, got: u32 },
    #[error(
        "a packet to {dst} for the QPN {qpn}: the multicast QPN goes with the address of a group, and only it"
    )]
    NotMulticast { dst: IpAddr, qpn: Qpn },
    #[error("there is no XRC SRQ {srqn}")]
    NoXrcSrq { srqn: Srqn },
    #[error("SRQ {srqn} is of another XRC domain than the QP")]
    OtherXrcd { srqn: Srqn },
    #[error("SRQ {srqn} is dead since the CQ that it completes to has overrun")]
    DeadSrq { srqn: Srqn },
    #[error("SEND with invalidate: {0}")]
    Invalidate(#[from] InvalidateFault),
}

impl ResponderFault {
    /// The class, which decides what happens to the QP.
    pub(crate) fn class(self) -> Class {
        match self {
            ResponderFault::NotReady { .. } => Class::B,
            ResponderFault::Recv(_)
            | ResponderFault::RemoteAddress { .. }
            | ResponderFault::DeadSrq { .. } => Class::A,
            ResponderFault::Invalidate(_) => Class::J,
            _ => Class::C,
        }
    }

    /// The NAK of classes A and C.
    pub(crate) fn nak_code(self) -> NakCode {
        match self {
            ResponderFault::RemoteKey { .. } | ResponderFault::OtherXrcd { .. } => NakCode::RemoteAccessError,
            ResponderFault::Recv(_)
            | ResponderFault::RemoteAddress { .. }
            | ResponderFault::DeadSrq { .. } => NakCode::RemoteOperationalError,
            _ => NakCode::InvalidRequest,
        }
    }

    /// The status of the receive WQE that the message holds, if it holds one.
    pub(crate) fn recv_status(self) -> WcStatus {
        match self {
            ResponderFault::Recv(_) => WcStatus::LocProtErr,
            ResponderFault::RecvTooSmall { .. } => WcStatus::LocLenErr,
            ResponderFault::RemoteKey { .. } => WcStatus::LocAccessErr,
            ResponderFault::RemoteAddress { .. } => WcStatus::LocQpOpErr,
            _ => WcStatus::RemInvReqErr,
        }
    }

    /// Our `vendor_err`: one number for each reason.
    pub(crate) fn code(self) -> u32 {
        match self {
            ResponderFault::NotReady { .. } => 0x20,
            ResponderFault::Sequence { .. } => 0x21,
            ResponderFault::FlushType { .. } => 0x22,
            ResponderFault::NotEnabled { .. } => 0x23,
            ResponderFault::Misaligned { .. } => 0x24,
            ResponderFault::TooManyReadAtomics { .. } => 0x25,
            ResponderFault::PacketLength { .. } => 0x26,
            ResponderFault::Pad { .. } => 0x27,
            ResponderFault::DmaLength { .. } => 0x28,
            ResponderFault::TooLong { .. } => 0x29,
            ResponderFault::RecvTooSmall { .. } => 0x2a,
            ResponderFault::Recv(_) => 0x2b,
            ResponderFault::RemoteKey { .. } => 0x2c,
            ResponderFault::RemoteAddress { .. } => 0x2d,
            ResponderFault::Invalidate(_) => 0x2e,
            ResponderFault::QKey { .. } => 0x38,
            ResponderFault::NotMulticast { .. } => 0x39,
            ResponderFault::NoXrcSrq { .. } => 0x3b,
            ResponderFault::OtherXrcd { .. } => 0x3c,
            ResponderFault::DeadSrq { .. } => 0x3d,
        }
    }
}
