#!/usr/bin/env python3
"""A wire between two tap interfaces that loses, doubles and reorders RoCEv2 datagrams.

usage: fault_link.py LEFT RIGHT MTU SEED

Makes both interfaces in the network namespace it runs in; whoever starts it moves and addresses them. Commands come on
stdin, one a line, answers go to stdout:

    faults DROP DUPLICATE REORDER COUNT   the next COUNT datagrams suffer, each in per cent of them  ->  ok
    report                                ->  one JSON object with the counts

Only UDP datagrams to port 4791 suffer; everything else, such as the TCP exchange of the programs, passes as it is. A
tap has no offloads, so the kernel cuts GSO messages into datagrams before they come here, each with its own IP
identification. A reordered datagram is held until the next HOLD datagrams of its direction have passed it.
"""

import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ROCE_PORT = 4791
HOLD = 3
LARGEST_FRAME = 65550
# Frames taken from one side before the other gets its turn.
BATCH = 64


def open_tap(name, mtu):
    """The descriptor of a new tap interface."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "mtu", mtu], check=True)
    return fd


def is_roce(frame):
    """Whether it is a UDP datagram to port 4791."""
    kind = frame[12:14]
    if kind == b"\x08\x00":
        protocol, at = frame[23:24], 14 + (frame[14] & 15) * 4
    elif kind == b"\x86\xdd":
        protocol, at = frame[20:21], 54
    else:
        return False
    return protocol == b"\x11" and frame[at + 2:at + 4] == struct.pack("!H", ROCE_PORT)


class Link:
    """Both directions, and what happened so far."""

    def __init__(self, left, right, seed):
        self.other = {left: right, right: left}
        self.held = {left: [], right: []}
        self.random = random.Random(seed)
        self.rates = (0.0, 0.0, 0.0)
        self.suffering = 0
        self.counts = dict.fromkeys(("datagrams", "dropped", "duplicated", "reordered", "overrun"), 0)

    def send(self, fd, frame):
        """Hands a frame to the kernel; a full interface loses it, as a wire does."""
        try:
            os.write(fd, frame)
        except (BlockingIOError, OSError):
            self.counts["overrun"] += 1

    def carry(self, source):
        """Takes what waits at one side to the other."""
        target = self.other[source]
        for _ in range(BATCH):
            try:
                frame = os.read(source, LARGEST_FRAME)
            except BlockingIOError:
                break
            if is_roce(frame):
                self.carry_roce(source, target, frame)
            else:
                self.send(target, frame)

    def carry_roce(self, source, target, frame):
        """The datagram meets its fate, and those it passes come nearer to theirs."""
        self.counts["datagrams"] += 1
        drop, duplicate, reorder = self.rates if self.suffering else (0, 0, 0)
        self.suffering = max(self.suffering - 1, 0)
        fate = self.random.random() * 100
        if fate < drop:
            self.counts["dropped"] += 1
        elif fate < drop + duplicate:
            self.counts["duplicated"] += 1
            self.send(target, frame)
            self.send(target, frame)
        elif fate < drop + duplicate + reorder:
            self.counts["reordered"] += 1
            self.held[source].append([HOLD + 1, frame])
        else:
            self.send(target, frame)
        self.let_pass(source, target)

    def let_pass(self, source, target):
        """Lets those go that were held long enough."""
        for entry in self.held[source]:
            entry[0] -= 1
        for _, frame in [entry for entry in self.held[source] if entry[0] == 0]:
            self.send(target, frame)
        self.held[source] = [entry for entry in self.held[source] if entry[0] > 0]

    def obey(self, line):
        """Does what a command says and returns the answer."""
        words = line.split()
        if words[0] == "faults":
            self.rates = tuple(float(word) for word in words[1:4])
            self.suffering = int(words[4])
            return "ok"
        return json.dumps(self.counts)


def main():
    """Runs until stdin ends."""
    left_name, right_name, mtu, seed = sys.argv[1:]
    left, right = open_tap(left_name, mtu), open_tap(right_name, mtu)
    link = Link(left, right, int(seed))
    print("ready", flush=True)
    commands = sys.stdin.fileno()
    unread = b""
    while True:
        for fd in select.select([left, right, commands], [], [])[0]:
            if fd != commands:
                link.carry(fd)
                continue
            text = os.read(commands, 4096)
            if not text:
                return
            *lines, unread = (unread + text).split(b"\n")
            for line in lines:
                print(link.obey(line.decode()), flush=True)


if __name__ == "__main__":
    main()
