use super::*;
use crate::cm::PortSpace;
use crate::cm::testing::{assert_message, mask_without};
use crate::header::testing::assert_round_trip;

#[test]
fn fields_lie_where_they_belong() {
    let message = Req::default()
        .with_local_comm_id(0x0102_0304)
        .with_vendor_id(0x0005_0607)
        .with_service_id(ServiceId::of_port(PortSpace::Tcp, 0x1112))
        .with_local_ca_guid(0x2122_2324_2526_2728)
        .with_local_qkey(0x3132_3334)
        .with_local_qpn(0x0041_4243)
        .with_responder_resources(0x44)
        .with_local_eecn(0x0051_5253)
        .with_initiator_depth(0x54)
        .with_remote_eecn(0x0061_6263)
        .with_remote_response_timeout(20)
        .with_transport(Transport::Xrc)
        .with_end_to_end_flow_control(true)
        .with_starting_psn(0x0071_7273)
        .with_local_response_timeout(21)
        .with_retry_count(6)
        .with_pkey(0x8182)
        .with_path_mtu(5)
        .with_rdc_exists(true)
        .with_rnr_retry_count(7)
        .with_max_cm_retries(15)
        .with_srq(true)
        .with_primary_path(ReqPath::default().with_local_lid(0x9192))
        .with_alternate_path(ReqPath::default().with_local_lid(0x9394))
        .with_private_data(&[0xaa; 92])
        .expect("just fits");
    assert_message(
        message,
        &[
            (0, &[1, 2, 3, 4, 0, 5, 6, 7]),
            (8, &[0, 0, 0, 0, 0x01, 0x06, 0x11, 0x12]),
            (16, &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]),
            (28, &[0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44]),
            (36, &[0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x63, 0b1010_0111]),
            (44, &[0x71, 0x72, 0x73, 0b1010_1110, 0x81, 0x82, 0b0101_1111, 0b1111_1001]),
            (52, &[0x91, 0x92]),
            (96, &[0x93, 0x94]),
            (140, &[0xaa; 92]),
        ],
    );
}

#[test]
fn transports_have_two_fields() {
    let all = [
        (Transport::Rc, 0b000, 0),
        (Transport::Uc, 0b010, 0),
        (Transport::Rd, 0b100, 0),
        (Transport::Xrc, 0b110, 1),
        (Transport::Reserved { kind: 3, extended: 2 }, 0b110, 2),
        (Transport::Reserved { kind: 0, extended: 1 }, 0b000, 1),
    ];
    for (transport, kind, extended) in all {
        let message = Req::default()
            .with_transport(Transport::Reserved { kind: 3, extended: 7 })
            .with_transport(transport);
        assert_eq!((message.timeout_and_transport, message.cm_retries_and_srq), (kind, extended));
        assert_eq!(message.transport(), transport);
    }
}

#[test]
fn round_trips_all_but_reserved_bits() {
    let mut mask = mask_without(&[(4, 0xff)]);
    mask[24..28].fill(0);
    assert_round_trip::<Req>(&mask, |message| {
        Req::default()
            .with_local_comm_id(message.local_comm_id())
            .with_vendor_id(message.vendor_id())
            .with_service_id(message.service_id())
            .with_local_ca_guid(message.local_ca_guid())
            .with_local_qkey(message.local_qkey())
            .with_local_qpn(message.local_qpn())
            .with_responder_resources(message.responder_resources())
            .with_local_eecn(message.local_eecn())
            .with_initiator_depth(message.initiator_depth())
            .with_remote_eecn(message.remote_eecn())
            .with_remote_response_timeout(message.remote_response_timeout())
            .with_transport(message.transport())
            .with_end_to_end_flow_control(message.end_to_end_flow_control())
            .with_starting_psn(message.starting_psn())
            .with_local_response_timeout(message.local_response_timeout())
            .with_retry_count(message.retry_count())
            .with_pkey(message.pkey())
            .with_path_mtu(message.path_mtu())
            .with_rdc_exists(message.rdc_exists())
            .with_rnr_retry_count(message.rnr_retry_count())
            .with_max_cm_retries(message.max_cm_retries())
            .with_srq(message.srq())
            .with_primary_path(*message.primary_path())
            .with_alternate_path(*message.alternate_path())
            .with_private_data(message.private_data())
            .expect("as long as its room")
    });
}
