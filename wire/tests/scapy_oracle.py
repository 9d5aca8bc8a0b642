"""Reads Ethernet frames as hex, one a line, and prints for each what scapy makes of it: the fields of the BTH, then the
ICRC it computes, as name=value separated by spaces."""

import sys
import zlib

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import raw

FIELDS = ["opcode", "solicited", "migreq", "padcount", "version", "pkey", "fecn", "becn", "resv6", "dqpn", "ackreq",
          "resv7", "psn"]


def icrc_over_ipv4(frame):
    """scapy computes the ICRC itself when the field is left out."""
    ip = frame[IP].copy()
    ip[BTH].icrc = None
    return raw(ip)[-4:]


def icrc_over_ipv6(frame):
    """This version of scapy has no ICRC over IPv6: its layers are masked here, field by field."""
    ip = frame[IPv6].copy()
    ip.tc, ip.fl, ip.hlim = 0xff, 0xfffff, 0xff
    ip[UDP].chksum = 0xffff
    ip[BTH].fecn, ip[BTH].becn, ip[BTH].resv6 = 1, 1, 0x3f
    covered = b"\xff" * 8 + raw(ip)[:-4]
    return zlib.crc32(covered).to_bytes(4, "little")


for line in sys.stdin:
    frame = Ether(bytes.fromhex(line))
    bth = frame[BTH]
    icrc = icrc_over_ipv4(frame) if IP in frame else icrc_over_ipv6(frame)
    values = [f"{name}={getattr(bth, name)}" for name in FIELDS]
    print(" ".join(values + [f"icrc={icrc.hex()}"]))
