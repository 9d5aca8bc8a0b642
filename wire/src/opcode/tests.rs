use std::format;
use std::vec::Vec;

use super::*;

/// Byte, name, header length: written out by hand, so that the table cannot agree with itself only.
#[rustfmt::skip]
const EXPECTED: &[(u8, &str, usize)] = &[
    (0x00, "RC_SEND_FIRST", 12), (0x01, "RC_SEND_MIDDLE", 12), (0x02, "RC_SEND_LAST", 12),
    (0x03, "RC_SEND_LAST_IMM", 16), (0x04, "RC_SEND_ONLY", 12), (0x05, "RC_SEND_ONLY_IMM", 16),
    (0x06, "RC_WRITE_FIRST", 28), (0x07, "RC_WRITE_MIDDLE", 12), (0x08, "RC_WRITE_LAST", 12),
    (0x09, "RC_WRITE_LAST_IMM", 16), (0x0a, "RC_WRITE_ONLY", 28), (0x0b, "RC_WRITE_ONLY_IMM", 32),
    (0x0c, "RC_READ_REQUEST", 28), (0x0d, "RC_READ_RESP_FIRST", 16), (0x0e, "RC_READ_RESP_MIDDLE", 12),
    (0x0f, "RC_READ_RESP_LAST", 16), (0x10, "RC_READ_RESP_ONLY", 16), (0x11, "RC_ACKNOWLEDGE", 16),
    (0x12, "RC_ATOMIC_ACK", 24), (0x13, "RC_COMPARE_SWAP", 40), (0x14, "RC_FETCH_ADD", 40),
    (0x16, "RC_SEND_LAST_INV", 16), (0x17, "RC_SEND_ONLY_INV", 16), (0x1c, "RC_FLUSH", 32),
    (0x1d, "RC_ATOMIC_WRITE", 28),
    (0x20, "UC_SEND_FIRST", 12), (0x21, "UC_SEND_MIDDLE", 12), (0x22, "UC_SEND_LAST", 12),
    (0x23, "UC_SEND_LAST_IMM", 16), (0x24, "UC_SEND_ONLY", 12), (0x25, "UC_SEND_ONLY_IMM", 16),
    (0x26, "UC_WRITE_FIRST", 28), (0x27, "UC_WRITE_MIDDLE", 12), (0x28, "UC_WRITE_LAST", 12),
    (0x29, "UC_WRITE_LAST_IMM", 16), (0x2a, "UC_WRITE_ONLY", 28), (0x2b, "UC_WRITE_ONLY_IMM", 32),
    (0x40, "RD_SEND_FIRST", 24), (0x41, "RD_SEND_MIDDLE", 24), (0x42, "RD_SEND_LAST", 24),
    (0x43, "RD_SEND_LAST_IMM", 28), (0x44, "RD_SEND_ONLY", 24), (0x45, "RD_SEND_ONLY_IMM", 28),
    (0x46, "RD_WRITE_FIRST", 40), (0x47, "RD_WRITE_MIDDLE", 24), (0x48, "RD_WRITE_LAST", 24),
    (0x49, "RD_WRITE_LAST_IMM", 28), (0x4a, "RD_WRITE_ONLY", 40), (0x4b, "RD_WRITE_ONLY_IMM", 44),
    (0x4c, "RD_READ_REQUEST", 40), (0x4d, "RD_READ_RESP_FIRST", 20), (0x4e, "RD_READ_RESP_MIDDLE", 16),
    (0x4f, "RD_READ_RESP_LAST", 20), (0x50, "RD_READ_RESP_ONLY", 20), (0x51, "RD_ACKNOWLEDGE", 20),
    (0x52, "RD_ATOMIC_ACK", 28), (0x53, "RD_COMPARE_SWAP", 52), (0x54, "RD_FETCH_ADD", 52), (0x55, "RD_RESYNC", 24),
    (0x64, "UD_SEND_ONLY", 20), (0x65, "UD_SEND_ONLY_IMM", 24), (0x81, "CNP", 28),
    (0xa0, "XRC_SEND_FIRST", 16), (0xa1, "XRC_SEND_MIDDLE", 16), (0xa2, "XRC_SEND_LAST", 16),
    (0xa3, "XRC_SEND_LAST_IMM", 20), (0xa4, "XRC_SEND_ONLY", 16), (0xa5, "XRC_SEND_ONLY_IMM", 20),
    (0xa6, "XRC_WRITE_FIRST", 32), (0xa7, "XRC_WRITE_MIDDLE", 16), (0xa8, "XRC_WRITE_LAST", 16),
    (0xa9, "XRC_WRITE_LAST_IMM", 20), (0xaa, "XRC_WRITE_ONLY", 32), (0xab, "XRC_WRITE_ONLY_IMM", 36),
    (0xac, "XRC_READ_REQUEST", 32), (0xad, "XRC_READ_RESP_FIRST", 16), (0xae, "XRC_READ_RESP_MIDDLE", 12),
    (0xaf, "XRC_READ_RESP_LAST", 16), (0xb0, "XRC_READ_RESP_ONLY", 16), (0xb1, "XRC_ACKNOWLEDGE", 16),
    (0xb2, "XRC_ATOMIC_ACK", 24), (0xb3, "XRC_COMPARE_SWAP", 44), (0xb4, "XRC_FETCH_ADD", 44),
    (0xb6, "XRC_SEND_LAST_INV", 20), (0xb7, "XRC_SEND_ONLY_INV", 20),
];

#[test]
fn the_opcodes_are_these_and_no_others() {
    let found: Vec<_> =
        Opcode::all().map(|opcode| (opcode.as_u8(), opcode.name(), opcode.header_len())).collect();
    assert_eq!(found, EXPECTED);
}

#[test]
fn names_say_what_the_table_says() {
    for opcode in Opcode::all() {
        let name = opcode.name();
        let words: Vec<&str> = name.split('_').collect();
        assert_eq!(words[0], format!("{:?}", opcode.service()).to_uppercase());
        let position = match opcode.position() {
            Position::First => words.contains(&"FIRST"),
            Position::Middle => words.contains(&"MIDDLE"),
            Position::Last => words.contains(&"LAST"),
            Position::Only => !["FIRST", "MIDDLE", "LAST"].iter().any(|word| words.contains(word)),
        };
        assert!(position, "{name}: {:?}", opcode.position());
        assert_eq!(opcode.has_imm(), words.contains(&"IMM"), "{name}");
        assert_eq!(opcode.has_ieth(), words.contains(&"INV"), "{name}");
        assert_eq!(
            opcode.is_response(),
            words.contains(&"RESP") || words.contains(&"ACKNOWLEDGE") || words.contains(&"ACK"),
            "{name}"
        );
    }
}

#[test]
fn requests_responses_and_notifications_are_apart() {
    for opcode in Opcode::all() {
        let kinds = [opcode.is_request(), opcode.is_response(), opcode.operation() == Operation::Cnp];
        assert_eq!(kinds.iter().filter(|kind| **kind).count(), 1, "{opcode}");
    }
}

#[test]
fn services_share_the_shape_of_an_operation() {
    assert_eq!(Opcode::RC_WRITE_ONLY_IMM.in_service(Service::Xrc), Some(Opcode::XRC_WRITE_ONLY_IMM));
    assert_eq!(Opcode::RC_READ_REQUEST.in_service(Service::Uc), None);
    assert_eq!(Opcode::RC_FLUSH.in_service(Service::Xrc), None);
    assert_eq!(Opcode::of_service(Service::Rd, 0x15), Some(Opcode::RD_RESYNC));
    assert_eq!(Opcode::of_service(Service::Rc, 0x20), None, "five bits, not six");
}

#[test]
fn only_read_responses_with_a_border_carry_an_aeth() {
    let with: Vec<_> =
        Opcode::all().filter(|o| o.service() == Service::Rc && o.has_aeth()).map(Opcode::name).collect();
    assert_eq!(
        with,
        ["RC_READ_RESP_FIRST", "RC_READ_RESP_LAST", "RC_READ_RESP_ONLY", "RC_ACKNOWLEDGE", "RC_ATOMIC_ACK"]
    );
}

#[test]
fn receives_are_consumed_once_in_a_message() {
    let consuming: Vec<_> = Opcode::all()
        .filter(|o| o.service() == Service::Uc && o.consumes_receive())
        .map(Opcode::name)
        .collect();
    assert_eq!(
        consuming,
        ["UC_SEND_FIRST", "UC_SEND_ONLY", "UC_SEND_ONLY_IMM", "UC_WRITE_LAST_IMM", "UC_WRITE_ONLY_IMM"]
    );
    assert!(Opcode::RC_SEND_ONLY_INV.consumes_receive());
    assert!(!Opcode::RC_ATOMIC_WRITE.consumes_receive());
}

#[test]
fn payload_follows_the_place_in_the_message() {
    for opcode in Opcode::all() {
        let rule = opcode.payload_rule();
        match (opcode.operation(), opcode.position()) {
            (
                Operation::Send | Operation::Write | Operation::ReadResponse,
                Position::First | Position::Middle,
            ) => {
                assert!(
                    rule.allows(1024, 1024) && !rule.allows(1023, 1024) && !rule.allows(1025, 1024),
                    "{opcode}"
                );
            }
            (Operation::Send | Operation::Write | Operation::ReadResponse, Position::Last) => {
                assert!(rule.allows(1, 1024) && rule.allows(1024, 1024), "{opcode}");
                assert!(!rule.allows(0, 1024) && !rule.allows(1025, 1024), "{opcode}");
            }
            (Operation::Send | Operation::Write | Operation::ReadResponse, Position::Only) => {
                assert!(
                    rule.allows(0, 1024) && rule.allows(1024, 1024) && !rule.allows(1025, 1024),
                    "{opcode}"
                );
            }
            (Operation::AtomicWrite, _) => {
                assert!(rule.allows(8, 1024) && !rule.allows(0, 1024) && !rule.allows(16, 1024), "{opcode}");
            }
            _ => assert!(rule.allows(0, 1024) && !rule.allows(1, 1024), "{opcode}"),
        }
    }
}

#[test]
fn memory_placement_headers_are_in_order() {
    assert_eq!(Opcode::RC_FLUSH.offset_of(Header::Feth), Some(12));
    assert_eq!(Opcode::RC_FLUSH.offset_of(Header::Reth), Some(16));
    assert_eq!(Opcode::RC_ATOMIC_WRITE.offset_of(Header::Reth), Some(12));
    assert_eq!(Opcode::RC_ATOMIC_WRITE.offset_of(Header::ImmDt), None);
}
