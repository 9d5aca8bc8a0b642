//! REP: the passive side accepts.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::u24::U24;

/// Reply to a request for communication, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Rep {
    local_comm_id: U32,
    remote_comm_id: U32,
    local_qkey: U32,
    local_qpn: U24,
    vendor_id_high: u8,
    local_eecn: U24,
    vendor_id_middle: u8,
    starting_psn: U24,
    vendor_id_low: u8,
    responder_resources: u8,
    initiator_depth: u8,
    delay_and_failover: u8,
    retry_and_srq: u8,
    local_ca_guid: U64,
    private_data: [u8; 196],
}

message!(Rep, attribute 0x0013, private data 196);

accessors! { Rep:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The receiver's communication ID, 0 if the sender does not know it.
    remote_comm_id, with_remote_comm_id => remote_comm_id: u32;
    /// Q_Key of the sender's queue pair; not for RC and UC.
    local_qkey, with_local_qkey => local_qkey: u32;
    /// The sender's queue pair, 24 bits.
    local_qpn, with_local_qpn => local_qpn: u32;
    /// The sender's end-to-end context, 24 bits; RD, or the initiator's side of XRC.
    local_eecn, with_local_eecn => local_eecn: u32;
    /// First PSN that the receiver shall send, 24 bits: the sender's `rq_psn`.
    starting_psn, with_starting_psn => starting_psn: u32;
    /// RDMA READs and atomics that the sender answers at once.
    responder_resources, with_responder_resources => responder_resources: u8;
    /// RDMA READs and atomics that the sender will have under way.
    initiator_depth, with_initiator_depth => initiator_depth: u8;
    /// How long the sender takes for an ACK: 4.096 µs · 2^code, 5 bits.
    target_ack_delay, with_target_ack_delay => delay_and_failover[7:3]: u8;
    /// Whether the alternate path is accepted: 0 accepted, 1 not supported, 2 rejected.
    failover_accepted, with_failover_accepted => delay_and_failover[2:1]: u8;
    /// Whether the sender counts credits.
    end_to_end_flow_control, with_end_to_end_flow_control => delay_and_failover[0]: bool;
    /// RNR retries that the receiver shall make, 0 to 7; 7 is for ever.
    rnr_retry_count, with_rnr_retry_count => retry_and_srq[7:5]: u8;
    /// Whether the sender's queue pair has a shared receive queue.
    srq, with_srq => retry_and_srq[4]: bool;
    /// GUID of the sender's channel adapter.
    local_ca_guid, with_local_ca_guid => local_ca_guid: u64;
}

impl Rep {
    /// The vendor whose options the sender offers, 24 bits; 0 for none.
    pub fn vendor_id(&self) -> u32 {
        u32::from_be_bytes([0, self.vendor_id_high, self.vendor_id_middle, self.vendor_id_low])
    }

    /// Sets the low 24 bits of the vendor's number.
    #[must_use]
    pub fn with_vendor_id(mut self, vendor_id: u32) -> Self {
        [_, self.vendor_id_high, self.vendor_id_middle, self.vendor_id_low] = vendor_id.to_be_bytes();
        self
    }
}

impl fmt::Display for Rep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "REP comm {:#x} > {:#x} qpn {:#08x} psn {} rd {}/{} rnr retry {}",
            self.local_comm_id(),
            self.remote_comm_id(),
            self.local_qpn(),
            self.starting_psn(),
            self.responder_resources(),
            self.initiator_depth(),
            self.rnr_retry_count()
        )?;
        if self.srq() {
            write!(f, " srq")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::testing::{assert_message, mask_without};
    use crate::header::testing::assert_round_trip;

    #[test]
    fn fields_lie_where_they_belong() {
        let message = Rep::default()
            .with_local_comm_id(0x0102_0304)
            .with_remote_comm_id(0x1112_1314)
            .with_local_qkey(0x2122_2324)
            .with_local_qpn(0x0031_3233)
            .with_local_eecn(0x0041_4243)
            .with_starting_psn(0x0051_5253)
            .with_vendor_id(0x0061_6263)
            .with_responder_resources(0x71)
            .with_initiator_depth(0x72)
            .with_target_ack_delay(0b10101)
            .with_failover_accepted(0b10)
            .with_end_to_end_flow_control(true)
            .with_rnr_retry_count(7)
            .with_srq(true)
            .with_local_ca_guid(0x8182_8384_8586_8788)
            .with_private_data(&[0xaa; 196])
            .expect("just fits");
        assert_message(
            message,
            &[
                (0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24]),
                (12, &[0x31, 0x32, 0x33, 0x61, 0x41, 0x42, 0x43, 0x62, 0x51, 0x52, 0x53, 0x63]),
                (24, &[0x71, 0x72, 0b1010_1101, 0b1111_0000]),
                (28, &[0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88]),
                (36, &[0xaa; 196]),
            ],
        );
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        assert_round_trip::<Rep>(&mask_without(&[(27, 0x0f)]), |message| {
            Rep::default()
                .with_local_comm_id(message.local_comm_id())
                .with_remote_comm_id(message.remote_comm_id())
                .with_local_qkey(message.local_qkey())
                .with_local_qpn(message.local_qpn())
                .with_local_eecn(message.local_eecn())
                .with_starting_psn(message.starting_psn())
                .with_vendor_id(message.vendor_id())
                .with_responder_resources(message.responder_resources())
                .with_initiator_depth(message.initiator_depth())
                .with_target_ack_delay(message.target_ack_delay())
                .with_failover_accepted(message.failover_accepted())
                .with_end_to_end_flow_control(message.end_to_end_flow_control())
                .with_rnr_retry_count(message.rnr_retry_count())
                .with_srq(message.srq())
                .with_local_ca_guid(message.local_ca_guid())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}
