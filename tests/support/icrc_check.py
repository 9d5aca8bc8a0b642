#!/usr/bin/env python3
"""Judges every RoCEv2 packet of a capture, without using a line of the product.

usage: icrc_check.py FILE.pcap [SCAPY_SAMPLE]

For each UDP datagram to port 4791 it works out the ICRC from the rule (IBTA Annex A17, CA17-22) and looks at what a
sender must do: lengths that agree, DF set, version and reserved bits 0, a pad of zeros that fills up four bytes. Of
each opcode up to SCAPY_SAMPLE packets over IPv4 are judged by scapy as well (its ICRC does not know IPv6). Prints one
JSON object and ends with status 0 if the file could be read.

The tests of this script: python3 icrc_check.py --self-test
"""

import json
import struct
import sys
import zlib

ROCE_PORT = 4791
BTH_LEN, ICRC_LEN = 12, 4
# Header bytes after the BTH, by the low five bits of an RC opcode: RETH 16, ImmDt 4, AETH 4, AtomicETH 28, ...
RC_HEADERS = {
    0x00: 0, 0x01: 0, 0x02: 0, 0x03: 4, 0x04: 0, 0x05: 4,
    0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4, 0x0A: 16, 0x0B: 20,
    0x0C: 16, 0x0D: 4, 0x0E: 0, 0x0F: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4,
}
ACKNOWLEDGE = 0x11


class Malformed(Exception):
    """What is wrong with a packet."""


def frames(data):
    """The frames of a classic pcap file of Ethernet."""
    magics = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
    if data[:4] not in magics:
        raise SystemExit("not a classic pcap file")
    order = magics[data[:4]]
    if struct.unpack_from(order + "I", data, 20)[0] != 1:
        raise SystemExit("not a capture of Ethernet frames")
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack_from(order + "II", data, at + 8)
        if captured != length:
            raise SystemExit("the capture has cut frames short")
        yield data[at + 16:at + 16 + captured]
        at += 16 + captured


def split(frame):
    """(IP header, UDP header, UDP payload) of a datagram to port 4791; None for anything else."""
    kind, at = struct.unpack_from("!H", frame, 12)[0], 14
    if kind == 0x0800:
        length, protocol = (frame[at] & 15) * 4, frame[at + 9]
        total = struct.unpack_from("!H", frame, at + 2)[0]
    elif kind == 0x86DD:
        length, protocol = 40, frame[at + 6]
        total = 40 + struct.unpack_from("!H", frame, at + 4)[0]
    else:
        return None
    if protocol != 17 or struct.unpack_from("!H", frame, at + length + 2)[0] != ROCE_PORT:
        return None
    packet = frame[at:at + total]
    return packet[:length], packet[length:length + 8], packet[length + 8:]


def icrc(ip, udp, bth_and_rest):
    """The ICRC as it belongs on the wire; `bth_and_rest` ends before it."""
    ip, udp, rest = bytearray(ip), bytearray(udp), bytearray(bth_and_rest)
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF      # ToS, TTL, header checksum
    else:
        ip[0:4] = b"\x6f\xff\xff\xff"               # traffic class and flow label
        ip[7] = 0xFF                                # hop limit
    udp[6] = udp[7] = 0xFF                          # checksum
    rest[4] = 0xFF                                  # FECN, BECN, reserved
    # Eight bytes stand for the local route header that RoCE has not; the register goes out low byte first.
    return struct.pack("<I", zlib.crc32(bytes(rest), zlib.crc32(bytes(ip + udp), zlib.crc32(b"\xff" * 8))))


def judge(ip, udp, payload):
    """Raises Malformed; else gives the opcode, and the syndrome of an ACKNOWLEDGE."""
    if ip[0] >> 4 == 4:
        if len(ip) != 20:
            raise Malformed("IPv4 options")
        if struct.unpack_from("!H", ip, 6)[0] != 0x4000:
            raise Malformed("DF is not set, or it is a fragment")
    if struct.unpack_from("!H", udp, 4)[0] != 8 + len(payload):
        raise Malformed("UDP length %d does not fit the IP length" % struct.unpack_from("!H", udp, 4)[0])
    if len(payload) < BTH_LEN + ICRC_LEN:
        raise Malformed("shorter than a BTH and an ICRC")
    opcode, flags, pad = payload[0], payload[1], payload[1] >> 4 & 3
    if opcode >> 5 or opcode & 31 not in RC_HEADERS:
        raise Malformed("opcode %#04x is not one of RC" % opcode)
    if flags & 15 or payload[4] & 0x3F or payload[8] & 0x7F:
        raise Malformed("version or reserved bits are not 0")
    if payload[2:4] != b"\xff\xff":
        raise Malformed("P_Key is not the default")
    rest = payload[BTH_LEN + RC_HEADERS[opcode & 31]:-ICRC_LEN]
    if len(rest) % 4 or pad > len(rest) or any(rest[len(rest) - pad:]):
        raise Malformed("the pad does not fill up four bytes with zeros")
    expected = icrc(ip, udp, payload[:-ICRC_LEN])
    if expected != payload[-ICRC_LEN:]:
        raise Malformed("ICRC is %s, must be %s" % (payload[-ICRC_LEN:].hex(), expected.hex()))
    return opcode, payload[BTH_LEN] if opcode == ACKNOWLEDGE else None


class Scapy:
    """The second opinion."""

    def __init__(self, sample):
        from scapy.contrib.roce import BTH
        from scapy.layers.l2 import Ether
        self.ether, self.bth, self.sample = Ether, BTH, sample
        self.judged, self.seen = 0, {}

    def judge(self, frame, opcode):
        """Raises Malformed if scapy works out another ICRC."""
        if frame[12:14] != b"\x08\x00" or self.seen.get(opcode, 0) >= self.sample:
            return
        self.seen[opcode] = self.seen.get(opcode, 0) + 1
        self.judged += 1
        packet = self.ether(frame)
        # scapy takes the four bytes after the BTH's fields for the ICRC and the packet's end for payload, so its
        # fields are put in order first.
        bth = packet[self.bth]
        whole = bytes(packet[self.bth].underlayer.payload)
        bth.remove_payload()
        rebuilt = self.bth(whole[:BTH_LEN] + whole[-ICRC_LEN:])
        rebuilt.add_payload(whole[BTH_LEN:-ICRC_LEN])
        udp = packet[self.bth].underlayer
        udp.remove_payload()
        udp.add_payload(rebuilt)
        if rebuilt.compute_icrc(b"") != whole[-ICRC_LEN:]:
            raise Malformed("scapy says the ICRC must be %s" % rebuilt.compute_icrc(b"").hex())


def check(data, sample):
    """The report on a whole capture."""
    try:
        scapy = Scapy(sample) if sample else None
    except ImportError:
        scapy = None
    report = {"packets": 0, "ipv4": 0, "ipv6": 0, "opcodes": {}, "rnr_naks": 0, "bad": []}
    for number, frame in enumerate(frames(data), 1):
        parts = split(frame)
        if parts is None:
            continue
        report["packets"] += 1
        report["ipv4" if parts[0][0] >> 4 == 4 else "ipv6"] += 1
        try:
            opcode, syndrome = judge(*parts)
            name = "%#04x" % opcode
            report["opcodes"][name] = report["opcodes"].get(name, 0) + 1
            report["rnr_naks"] += syndrome is not None and syndrome >> 5 == 1
            if scapy:
                scapy.judge(frame, opcode)
        except Malformed as what:
            if len(report["bad"]) < 20:
                report["bad"].append("frame %d: %s" % (number, what))
    report["judged_by_scapy"] = scapy.judged if scapy else 0
    return report


def self_test():
    """Every fault of one bit pattern in a SEND ONLY is seen; what the ICRC does not cover does not change it."""
    ip = bytes.fromhex("45000034000040004011" "0000" "0a4d0002" "0a4d0003")
    udp = struct.pack("!HHHH", 0xC000, ROCE_PORT, 8 + 20, 0)
    bth = bytes.fromhex("0400ffff00000011" "80000000") + b"ping"
    good = bth + icrc(ip, udp, bth)
    assert judge(ip, udp, good) == (4, None)
    for at in range(len(good)):
        if at == 4:
            continue                                # not covered
        wrong = bytearray(good)
        wrong[at] ^= 0x10
        try:
            judge(ip, udp, bytes(wrong))
        except Malformed:
            continue
        raise AssertionError("a fault at byte %d was not seen" % at)
    assert icrc(b"\x60" + bytes(39), udp, bth) == icrc(b"\x60\0\0\0" + bytes(3) + b"\x40" + bytes(32), udp, bth)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        with open(sys.argv[1], "rb") as capture:
            contents = capture.read()
        print(json.dumps(check(contents, int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
