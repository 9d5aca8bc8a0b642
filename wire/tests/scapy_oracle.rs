//! scapy, which nobody here wrote, reads the frames that our writer makes: it must find the same fields and compute the
//! same ICRC.
//!
//! Needs Python 3 with scapy (Debian: `python3-scapy`). Without it the test fails, unless `FERROCE_TEST_NO_SCAPY=1`.

use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

use ferroce_wire::frame::Frame;
use ferroce_wire::icrc::{self, IpContext};
use ferroce_wire::{
    EthernetHeader, Feth, FlushSelectivity, Ipv4Header, Ipv6Header, Opcode, PacketHeader, PayloadRule, Psn,
    Qpn, Service, Syndrome, UdpHeader,
};
use zerocopy::IntoBytes;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy_oracle.py");
/// The second is for machines whose first Python is not the system's, to which the package belongs.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];
const SKIP: &str = "FERROCE_TEST_NO_SCAPY";

const SOURCE_PORT: u16 = 0xc123;
const SOURCE_V4: [u8; 4] = [10, 77, 0, 2];
const DESTINATION_V4: [u8; 4] = [10, 77, 0, 3];
const SOURCE_V6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const DESTINATION_V6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];

#[test]
fn scapy_finds_the_same_fields_and_the_same_icrc() {
    if env::var_os(SKIP).is_some_and(|value| value == "1") {
        println!("skipped: {SKIP}=1 says that there is no scapy here");
        return;
    }
    let frames = all_frames();
    let answers = ask_scapy(&frames);
    assert_eq!(answers.len(), frames.len(), "an answer for each frame");
    for (frame, answer) in frames.iter().zip(&answers) {
        let frame = Frame::parse_ethernet(frame).expect("just made");
        assert_eq!(answer, &expected(&frame), "{frame}");
    }
}

/// Each opcode of RC and the CNP, each pad (where there is payload), over IPv4 and IPv6.
fn all_frames() -> Vec<Vec<u8>> {
    let opcodes: Vec<Opcode> =
        Opcode::all().filter(|opcode| matches!(opcode.service(), Service::Rc | Service::Cnp)).collect();
    assert_eq!(opcodes.len(), 26);
    let mut frames = Vec::new();
    for (index, opcode) in opcodes.into_iter().enumerate() {
        let lengths: &[usize] = match opcode.payload_rule() {
            PayloadRule::Empty => &[0],
            PayloadRule::Exactly(8) => &[8],
            PayloadRule::Exactly(other) => panic!("no opcode has {other} bytes"),
            PayloadRule::FullMtu => &[256, 1024],
            PayloadRule::NonEmpty => &[1, 2, 3, 4, 1023],
            PayloadRule::UpToMtu => &[0, 1, 2, 3, 4, 1021],
        };
        for len in lengths {
            let header = header(opcode, index as u32);
            frames.push(over_ipv4(&header, *len, index as u16 * 257));
            frames.push(over_ipv6(&header, *len));
        }
    }
    frames
}

/// A header whose every field is something else than its neighbours.
fn header(opcode: Opcode, seed: u32) -> PacketHeader {
    let bit = |n: u32| seed >> n & 1 != 0;
    PacketHeader::new(opcode, Qpn::new(0x0102_0300 + seed), Psn::new(0x00a1_b200 + seed))
        .pkey(0x8001 + seed as u16)
        .ack_req(bit(0))
        .solicited(bit(1))
        .mig_req(bit(2))
        .fecn(bit(3))
        .becn(bit(4))
        .reth(0x7f00_1234_5678_9abc, 0x1b2c_3d4e, 4096)
        .atomic_eth(0x7f00_1234_5678_9ab8, 0x1b2c_3d4e, u64::MAX, 1)
        .aeth(Syndrome::ACK, seed)
        .atomic_ack_eth(0x0102_0304_0506_0708)
        .imm([0x1b, 0xad, 0xca, 0xfe])
        .ieth(0x5a5a_a5a5)
        .feth(Feth::new(FlushSelectivity::Range, true, false))
}

fn transport(header: &PacketHeader, payload_len: usize, ip: &IpContext) -> Vec<u8> {
    let mut packet = vec![0; header.packet_len(payload_len)];
    for (i, byte) in header.write(&mut packet, payload_len).iter_mut().enumerate() {
        *byte = (i * 37 + 11) as u8;
    }
    icrc::seal(ip, &mut packet);
    packet
}

fn over_ipv4(header: &PacketHeader, payload_len: usize, id: u16) -> Vec<u8> {
    let context = IpContext::V4 { src: SOURCE_V4, dst: DESTINATION_V4, id, source_port: SOURCE_PORT };
    let packet = transport(header, payload_len, &context);
    let udp = UdpHeader::new(SOURCE_PORT, packet.len() as u16);
    let ip = Ipv4Header::new(SOURCE_V4, DESTINATION_V4, udp.datagram_len())
        .with_id(id)
        .with_tos(0x6a)
        .with_checksum();
    [ethernet(EthernetHeader::IPV4).as_bytes(), ip.as_bytes(), udp.as_bytes(), &packet].concat()
}

fn over_ipv6(header: &PacketHeader, payload_len: usize) -> Vec<u8> {
    let context = IpContext::V6 { src: SOURCE_V6, dst: DESTINATION_V6, source_port: SOURCE_PORT };
    let packet = transport(header, payload_len, &context);
    let udp = UdpHeader::new(SOURCE_PORT, packet.len() as u16);
    let ip = Ipv6Header::new(SOURCE_V6, DESTINATION_V6, udp.datagram_len()).with_traffic_class(0x6a);
    let ip = ip.with_flow_label(0x12345);
    [ethernet(EthernetHeader::IPV6).as_bytes(), ip.as_bytes(), udp.as_bytes(), &packet].concat()
}

fn ethernet(ethertype: u16) -> EthernetHeader {
    EthernetHeader::new([2, 0x77, 0, 0, 0, 3], [2, 0x77, 0, 0, 0, 2], ethertype)
}

/// What the script should print for `frame`.
fn expected(frame: &Frame<'_>) -> String {
    let packet = frame.packet().expect("just made");
    let bth = packet.bth();
    let icrc: String = packet.icrc().iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "opcode={} solicited={} migreq={} padcount={} version=0 pkey={} fecn={} becn={} resv6=0 dqpn={} ackreq={} \
         resv7=0 psn={} icrc={icrc}",
        bth.opcode(),
        u8::from(bth.solicited()),
        u8::from(bth.mig_req()),
        bth.pad_count(),
        bth.pkey(),
        u8::from(bth.fecn()),
        u8::from(bth.becn()),
        bth.dest_qpn().value(),
        u8::from(bth.ack_req()),
        bth.psn().value(),
    )
}

fn ask_scapy(frames: &[Vec<u8>]) -> Vec<String> {
    let mut child = Command::new(python_with_scapy())
        .arg(SCRIPT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it ran a moment ago");
    let lines: String = frames
        .iter()
        .map(|frame| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect();
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("scapy's answers");
    writer.join().expect("no panic").expect("scapy reads all frames");
    assert!(output.status.success(), "the script failed: {}", output.status);
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn python_with_scapy() -> &'static str {
    let has_scapy = |python: &&str| {
        let check = Command::new(python)
            .args(["-c", "import scapy.contrib.roce"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        check.is_ok_and(|status| status.success())
    };
    PYTHONS.into_iter().find(has_scapy).unwrap_or_else(|| {
        panic!(
            "no Python 3 with scapy's RoCE layer among {PYTHONS:?}: install scapy (Debian: python3-scapy), \
             or set {SKIP}=1 to do without this test"
        )
    })
}
