//! What the transport counts.
//!
//! Each fact is counted once. The two dialects that users know, rxe's and mlx5's `hw_counters`, and the IB port
//! counters are lists of names over the same numbers ([`RXE_HW_COUNTERS`], [`MLX5_HW_COUNTERS`],
//! [`PORT_COUNTERS`]).

/// The numbers, one for each [`Counter`]. They wrap at 2^64 and never go back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters {
    values: [u64; Counter::COUNT],
}

impl Counters {
    /// All zero.
    pub const fn new() -> Self {
        Counters { values: [0; Counter::COUNT] }
    }

    /// Adds one.
    #[inline]
    pub fn incr(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `amount`.
    #[inline]
    pub fn add(&mut self, counter: Counter, amount: u64) {
        let value = &mut self.values[counter as usize];
        *value = value.wrapping_add(amount);
    }

    /// The present value.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// Every counter with its value, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self.get(counter)))
    }

    /// The values alone; index n is `Counter::ALL[n]`.
    pub fn values(&self) -> &[u64; Counter::COUNT] {
        &self.values
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

/// Declares the enum and, from the same lines, the list, the names and the descriptions.
macro_rules! counters {
    ($($variant:ident, $name:literal, $description:literal;)*) => {
        /// One thing that is counted.
        ///
        /// The discriminant is the index under which the value is exported to shared memory, where a reader of
        /// another version may look at it: new counters go to the end and none is ever removed.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Counter {
            $(#[doc = $description] $variant,)*
        }

        impl Counter {
            /// All of them, in index order.
            pub const ALL: [Counter; Counter::COUNT] = [$(Counter::$variant,)*];

            /// How many there are.
            pub const COUNT: usize = [$($name,)*].len();

            /// Its name, in snake case: mlx5's or the IB port counters' where they have one, else rxe's or ours.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)* }
            }

            /// One sentence that says what it counts.
            pub const fn description(self) -> &'static str {
                match self { $(Counter::$variant => $description,)* }
            }
        }
    };
}

counters! {
    // The port, in IB terms.
    PortXmitPackets, "port_xmit_packets", "Packets sent, of every kind.";
    PortXmitData, "port_xmit_data", "4-byte words sent, from the BTH to the ICRC.";
    PortRcvPackets, "port_rcv_packets", "Packets received, before any check.";
    PortRcvData, "port_rcv_data", "4-byte words received, from the BTH to the ICRC.";
    PortXmitWait, "port_xmit_wait", "Times a packet was ready and the port took none.";
    LinkDowned, "link_downed", "Times the network interface went down.";
    SendErr, "send_err", "Packets the host refused to send.";

    // The requester: what the peer's answers and the timers told it.
    RdmaSends, "rdma_sends", "SEND requests completed as requester.";
    RnrNakRetryErr, "rnr_nak_retry_err", "RNR NAKs received: the peer had no receive WQE.";
    PacketSeqErr, "packet_seq_err", "NAKs for a PSN sequence error received: a request was lost on its way.";
    ImpliedNakSeqErr, "implied_nak_seq_err", "Times a later answer showed that a READ or atomic response was lost.";
    LocalAckTimeoutErr, "local_ack_timeout_err", "Times the local ACK timeout ran out.";
    CompleterRetryErr, "completer_retry_err", "Times the requester went back to an earlier PSN, for any reason.";
    RetransmittedPackets, "retransmitted_packets", "Request packets sent again.";
    ReqTransportRetriesExceeded, "req_transport_retries_exceeded", "Requests that failed because retry_cnt was used up.";
    ReqRnrRetriesExceeded, "req_rnr_retries_exceeded", "Requests that failed because rnr_retry was used up.";
    ReqRemoteInvalidRequest, "req_remote_invalid_request", "Requests the peer refused with NAK Invalid Request.";
    ReqRemoteAccessErrors, "req_remote_access_errors", "Requests the peer refused with NAK Remote Access Error.";
    ReqCqeError, "req_cqe_error", "Send completions with an error, flushed ones not counted.";
    ReqCqeFlushError, "req_cqe_flush_error", "Send completions flushed.";

    // The responder.
    RdmaRecvs, "rdma_recvs", "Receive WQEs completed with success.";
    RxWriteRequests, "rx_write_requests", "RDMA WRITE messages begun as responder.";
    RxReadRequests, "rx_read_requests", "RDMA READ requests accepted.";
    RxAtomicRequests, "rx_atomic_requests", "Atomic requests accepted.";
    OutOfBuffer, "out_of_buffer", "Packets that found no receive WQE.";
    OutOfSequence, "out_of_sequence", "Requests ahead of the expected PSN: one before them was lost.";
    DuplicateRequest, "duplicate_request", "Requests behind the expected PSN, received before.";
    AcksSent, "acks_sent", "Positive acknowledgements sent.";
    AckDeferred, "ack_deferred", "Acknowledgements held back so that a later one covers them.";
    SeqNaksSent, "seq_naks_sent", "NAKs for a PSN sequence error sent.";
    SendRnrErr, "send_rnr_err", "RNR NAKs sent.";
    RespLocalLengthError, "resp_local_length_error", "Messages longer than the receive WQE they came to.";
    RespRemoteAccessErrors, "resp_remote_access_errors", "Requests refused with NAK Remote Access Error.";
    RespCqeError, "resp_cqe_error", "Receive completions with an error, flushed ones not counted.";
    RespCqeFlushError, "resp_cqe_flush_error", "Receive completions flushed.";

    // Congestion.
    NpEcnMarkedRocePackets, "np_ecn_marked_roce_packets", "Packets received with the ECN mark CE.";
    NpCnpSent, "np_cnp_sent", "CNPs sent.";
    RpCnpHandled, "rp_cnp_handled", "CNPs received and acted on.";
    RpCnpIgnored, "rp_cnp_ignored", "CNPs received and not acted on.";

    // Packets dropped without an answer, by the first check that failed.
    DropMalformed, "drop_malformed", "Dropped: too short for its headers, its pad or its ICRC.";
    DropTransportVersion, "drop_transport_version", "Dropped: the BTH's transport version is not 0.";
    DropUnknownOpcode, "drop_unknown_opcode", "Dropped: the BTH's opcode means nothing.";
    DropIcrc, "drop_icrc", "Dropped: the ICRC does not match, so the packet was damaged on its way.";
    DropUnknownQpn, "drop_unknown_qpn", "Dropped: no QP has the destination QPN.";
    DropService, "drop_service", "Dropped: the opcode is of another service than the QP, or goes the other way.";
    DropState, "drop_state", "Dropped: the QP is in a state that takes no such packet.";
    DropPkey, "drop_pkey", "Dropped: the P_Key does not match.";
    DropQkey, "drop_qkey", "Dropped: the Q_Key does not match.";
    DropAddress, "drop_address", "Dropped: the IP addresses are not those of the QP's path.";
    DropGhostAck, "drop_ghost_ack", "Dropped: a response to a PSN that was not sent.";
    DropStaleResponse, "drop_stale_response", "Dropped: a response to a request already complete or being repeated.";
    DropOutOfSequence, "drop_out_of_sequence", "Dropped: a request behind a loss that has been NAKed already.";
    DropDuplicate, "drop_duplicate", "Dropped: a repeated READ or atomic that can no longer be answered.";
    DropUcMessage, "drop_uc_message", "Dropped: a packet of a UC message that was refused or has lost a packet.";
    DropDatagram, "drop_datagram", "Dropped: a UD packet longer than the port's MTU, or wrongly padded.";
    DropMulticast, "drop_multicast", "Dropped: a multicast packet to a group that no QP is attached to.";
}

/// rxe's `hw_counters`, in rxe's order.
pub const RXE_HW_COUNTERS: &[(&str, Counter)] = &[
    ("sent_pkts", Counter::PortXmitPackets),
    ("rcvd_pkts", Counter::PortRcvPackets),
    ("duplicate_request", Counter::DuplicateRequest),
    ("out_of_seq_request", Counter::OutOfSequence),
    ("rcvd_rnr_err", Counter::RnrNakRetryErr),
    ("send_rnr_err", Counter::SendRnrErr),
    ("rcvd_seq_err", Counter::PacketSeqErr),
    ("ack_deferred", Counter::AckDeferred),
    ("retry_exceeded_err", Counter::ReqTransportRetriesExceeded),
    ("retry_rnr_exceeded_err", Counter::ReqRnrRetriesExceeded),
    ("completer_retry_err", Counter::CompleterRetryErr),
    ("send_err", Counter::SendErr),
    ("link_downed", Counter::LinkDowned),
    ("rdma_sends", Counter::RdmaSends),
    ("rdma_recvs", Counter::RdmaRecvs),
];

/// mlx5's `hw_counters`, less `lifespan`, which is a setting of the driver and counts nothing.
pub const MLX5_HW_COUNTERS: &[(&str, Counter)] = &[
    ("rx_write_requests", Counter::RxWriteRequests),
    ("rx_read_requests", Counter::RxReadRequests),
    ("rx_atomic_requests", Counter::RxAtomicRequests),
    ("out_of_buffer", Counter::OutOfBuffer),
    ("out_of_sequence", Counter::OutOfSequence),
    ("duplicate_request", Counter::DuplicateRequest),
    ("rnr_nak_retry_err", Counter::RnrNakRetryErr),
    ("packet_seq_err", Counter::PacketSeqErr),
    ("implied_nak_seq_err", Counter::ImpliedNakSeqErr),
    ("local_ack_timeout_err", Counter::LocalAckTimeoutErr),
    ("resp_local_length_error", Counter::RespLocalLengthError),
    ("resp_cqe_error", Counter::RespCqeError),
    ("req_cqe_error", Counter::ReqCqeError),
    ("req_remote_invalid_request", Counter::ReqRemoteInvalidRequest),
    ("req_remote_access_errors", Counter::ReqRemoteAccessErrors),
    ("resp_remote_access_errors", Counter::RespRemoteAccessErrors),
    ("resp_cqe_flush_error", Counter::RespCqeFlushError),
    ("req_cqe_flush_error", Counter::ReqCqeFlushError),
    ("req_transport_retries_exceeded", Counter::ReqTransportRetriesExceeded),
    ("req_rnr_retries_exceeded", Counter::ReqRnrRetriesExceeded),
    ("rp_cnp_ignored", Counter::RpCnpIgnored),
    ("rp_cnp_handled", Counter::RpCnpHandled),
    ("np_ecn_marked_roce_packets", Counter::NpEcnMarkedRocePackets),
    ("np_cnp_sent", Counter::NpCnpSent),
    ("rx_icrc_encapsulated", Counter::DropIcrc),
];

/// The IB port counters of `ports/1/counters` that a software port can know.
pub const PORT_COUNTERS: &[(&str, Counter)] = &[
    ("port_xmit_data", Counter::PortXmitData),
    ("port_rcv_data", Counter::PortRcvData),
    ("port_xmit_packets", Counter::PortXmitPackets),
    ("port_rcv_packets", Counter::PortRcvPackets),
    ("port_xmit_wait", Counter::PortXmitWait),
    ("port_xmit_discards", Counter::SendErr),
    ("link_downed", Counter::LinkDowned),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn index_is_the_place_in_the_list() {
        for (index, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, index, "{}", counter.name());
        }
    }

    #[test]
    fn names_are_unique_snake_case() {
        let names: BTreeSet<_> = Counter::ALL.into_iter().map(Counter::name).collect();
        assert_eq!(names.len(), Counter::COUNT);
        for name in names {
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
        }
    }

    #[test]
    fn a_dialect_names_each_counter_once() {
        for dialect in [RXE_HW_COUNTERS, MLX5_HW_COUNTERS, PORT_COUNTERS] {
            let names: BTreeSet<_> = dialect.iter().map(|(name, _)| name).collect();
            let counters: BTreeSet<_> = dialect.iter().map(|(_, counter)| counter).collect();
            assert_eq!(names.len(), dialect.len());
            assert_eq!(counters.len(), dialect.len());
        }
    }

    #[test]
    fn counting_touches_one_counter_only() {
        let mut counters = Counters::new();
        counters.incr(Counter::DropIcrc);
        counters.add(Counter::PortXmitData, 270);
        counters.incr(Counter::DropIcrc);
        for (counter, value) in counters.iter() {
            let expected = match counter {
                Counter::DropIcrc => 2,
                Counter::PortXmitData => 270,
                _ => 0,
            };
            assert_eq!(value, expected, "{}", counter.name());
            assert_eq!(counters.values()[counter as usize], value);
        }
    }

    #[test]
    fn a_counter_wraps_instead_of_stopping_the_card() {
        let mut counters = Counters::new();
        counters.add(Counter::PortRcvData, u64::MAX);
        counters.add(Counter::PortRcvData, 3);
        assert_eq!(counters.get(Counter::PortRcvData), 2);
    }
}
