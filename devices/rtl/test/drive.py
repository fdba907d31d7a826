#!/usr/bin/env python3
"""pktgen's side of the lockstep protocol, for tests of devices: gives frames, advances, checks what comes.

  drive.py switchml|olaf DEVICE [OPTION...]      starts the device, whose options follow, and tries what its protocol says
"""
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile

HELLO, WELCOME, FRAME_IN, ADVANCE, FRAME_OUT, ADVANCED, COUNTERS, COUNTED, QUIT = range(1, 10)
HANG_S = 60


class Lockstep:
    """A device's process and the connection to it."""

    def __init__(self, command, seed=1):
        self.dir = tempfile.TemporaryDirectory()
        path = os.path.join(self.dir.name, "lockstep")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(HANG_S)
        self.process = subprocess.Popen(command, env=dict(os.environ, PKTGEN_LOCKSTEP=path))
        self.socket, _ = listener.accept()
        self.socket.settimeout(HANG_S)
        self.buffer = b""
        kind, body = self.receive()
        assert kind == HELLO, kind
        self.version, self.ports, self.clock_ps = struct.unpack_from("<HHq", body)
        self.name = body[12:].decode()
        assert self.version == 1
        self.send(WELCOME, struct.pack("<HQ", 1, seed))
        self.now = 0

    def send(self, kind, body=b""):
        self.socket.sendall(struct.pack("<IB", len(body) + 1, kind) + body)

    def receive(self):
        length, kind = struct.unpack("<IB", self._exactly(5))
        return kind, self._exactly(length - 1)

    def _exactly(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError("the device closed the connection")
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def frame(self, t, port, data):
        self.send(FRAME_IN, struct.pack("<qH", t, port) + data)

    def advance(self, until):
        """Frames that left, as (t, port, bytes), up to when all has happened, and when anything can leave next."""
        self.send(ADVANCE, struct.pack("<q", until))
        frames = []
        while True:
            kind, body = self.receive()
            if kind == FRAME_OUT:
                t, port = struct.unpack_from("<qH", body)
                frames.append((t, port, body[10:]))
                continue
            assert kind == ADVANCED, kind
            t, after = struct.unpack("<qq", body)
            assert self.now <= t <= until, (self.now, t, until)
            assert all(frame[0] == t for frame in frames), "frames of one answer leave at one time"
            assert frames or t == until
            assert after == -1 or after >= t
            self.now = t
            return frames, t, after

    def run(self, until):
        """All frames that leave up to `until`."""
        all_frames = []
        while True:
            frames, t, after = self.advance(until)
            all_frames += frames
            if t == until or (after == -1 and not frames):
                return all_frames

    def counters(self):
        self.send(COUNTERS)
        kind, body = self.receive()
        assert kind == COUNTED, kind
        counts = json.loads(body)
        assert all(isinstance(count, int) and count >= 0 for count in counts.values())
        return counts

    def quit(self):
        self.send(QUIT)
        code = self.process.wait(HANG_S)
        self.socket.close()
        return code


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def datagram(source, target, payload):
    """Source and target are (Ethernet address, IPv4 address, port)."""
    ip = struct.pack(">BBHIBBH4s4s", 0x45, 0, len(payload) + 28, 0x4000, 64, 17, 0, source[1], target[1])
    ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
    udp = struct.pack(">HHHH", source[2], target[2], len(payload) + 8, 0)
    return target[0] + source[0] + b"\x08\x00" + ip + udp + payload


def worker(number):
    ip = bytes([10, 0, 0, 1 + number])
    return b"\x02\x00" + ip, ip, 4000


SWITCH_IP = bytes([198, 18, 0, 1])
SWITCH = (b"\x02\x00" + SWITCH_IP, SWITCH_IP, 0xBEE0)
GROUP = (b"\x01\x00\x5e\x40\x00\x00", bytes([239, 192, 0, 0]), 4000)


def head(slot, version, packet, values, exponent=0, job=0):
    return struct.pack(">BB", 0x11 if values == 64 else 0x13, job) + struct.pack("<I", packet) + struct.pack(
        ">Hbb", version << 15 | slot, exponent, 0)


def update(number, slot, version, packet, values, exponent=0):
    payload = head(slot, version, packet, len(values), exponent) + struct.pack(f">{len(values)}i", *values)
    return datagram(worker(number), SWITCH, payload)


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


def sums(device, choice, values, workers=4, slots=8, rounds=40):
    """Rounds of all workers on all slots in any order: every sum, on every port, exactly once."""
    t = 0
    for number in range(rounds):
        sent, frames = {}, []
        order = [(w, slot) for w in range(workers) for slot in range(slots)]
        choice.shuffle(order)
        for w, slot in order:
            lanes = [choice.randrange(-(2**31), 2**31) for _ in range(values)]
            sent.setdefault(slot, []).append((w, lanes, choice.randrange(-128, 128)))
            frame = update(w, slot, number & 1, number * slots + slot, lanes, sent[slot][-1][2])
            t += choice.randrange(3) * 1000
            frames += device.run(t) if choice.random() < 0.5 else []
            t = max(t, device.now)
            device.frame(t, w, frame)
        t += 10_000_000
        frames += device.run(t)
        assert device.advance(t)[2] == -1, "nothing is left to do"
        assert len(frames) == slots * workers, (number, len(frames))
        for slot, parts in sent.items():
            total = [wrapped(sum(lane)) for lane in zip(*(lanes for _, lanes, _ in parts))]
            exponent = max(e for _, _, e in parts)
            payload = head(slot, number & 1, number * slots + slot, values, exponent) + struct.pack(f">{values}i", *total)
            wanted = datagram(SWITCH, GROUP, payload)
            ports = sorted(port for _, port, data in frames if data == wanted)
            assert ports == list(range(workers)), (number, slot, ports)
    return rounds * slots


def repeats(device, values, t):
    """A repeat before the sum is complete is dropped, one behind it is answered on its port alone."""
    lanes = [1] * values
    device.frame(t, 0, update(0, 0, 0, 1000, lanes))
    device.frame(t, 0, update(0, 0, 0, 1000, lanes))
    assert device.run(t + 10_000_000) == []
    t += 10_000_000
    for w in (1, 2, 3):
        device.frame(t, w, update(w, 0, 0, 1000, lanes))
    first = device.run(t + 10_000_000)
    assert len(first) == 4 and all(data == first[0][2] for _, _, data in first)
    assert struct.unpack_from(">i", first[0][2], 52)[0] == 4
    t += 10_000_000
    device.frame(t, 2, update(2, 0, 0, 1000, lanes))
    alone = device.run(t + 10_000_000)
    assert len(alone) == 1 and alone[0][1] == 2 and alone[0][2][30:34] == worker(2)[1]
    assert alone[0][2][42:] == first[0][2][42:], "the same sum"
    # A frame at a time between edges is seen at the next edge, and edges are multiples of the clock.
    assert alone[0][0] % device.clock_ps == 0
    return alone[0][0] - t


def late_copy(device, values, workers):
    """The counter of a set does not know its bitmap: a copy behind the worker's next packet takes the place of that packet."""
    t, last = device.now, workers - 1
    sent = [(w, 0) for w in range(workers)] + [(0, 1), (0, 0)] + [(w, 1) for w in range(1, workers)]
    frames = []
    for n, (w, version) in enumerate(sent):
        t += 10_000_000
        device.frame(t, w, update(w, 1, version, 2000 + n, [1 + w] * values))
        frames.append(device.run(t + 9_000_000))
    assert [len(out) for out in frames] == [workers if n in (last, len(sent) - 1) else 0 for n in range(len(sent))], frames
    return struct.unpack_from(">i", frames[-1][0][2], 52)[0]


def try_switchml(device, values):
    results = sums(device, random.Random(7), values)
    latency = repeats(device, values, device.now)
    assert late_copy(device, values, 4) == 2 + 3 + 4, "the sum lacks the worker whose bit the copy took"
    counts = device.counters()
    assert counts["results"] == results + 3, counts
    assert counts["duplicates_answered"] == 1 and counts["duplicates_dropped"] == 1, counts
    return f"{results} sums of {values} values, answer after {latency} ps"


def olaf_update(number, reward, gradients):
    source = worker(number)[:2] + (48511,)
    return datagram(source, (SWITCH[0], SWITCH_IP, 48510), struct.pack(f"<{len(gradients) + 1}f", reward, *gradients))


def try_olaf(device):
    """An update that leaves, four that wait and merge or replace, and an ACK that is stamped. 1 Gbit/s towards the server."""
    server = 31
    device.frame(0, 0, olaf_update(3, 1.0, [1.5] * 40))
    out = device.run(2_000_000)
    assert [(port, data) for _, port, data in out] == [(server, olaf_update(3, 1.0, [1.5] * 40))], out
    # The link is busy with one update of cluster 2; meanwhile others arrive: two of cluster 0, one worker of cluster 1 twice.
    t = 2_000_000
    for number, reward, lane in [(6, 0.0, 9.0), (0, 1.0, 0.25), (1, 3.0, 0.5), (3, 2.0, 7.0), (3, 1.0, 8.0)]:
        device.frame(t, number, olaf_update(number, reward, [lane] * 40))
        t += 100_000
    ack = datagram((SWITCH[0], SWITCH_IP, 48510), worker(1)[:2] + (48511,), bytes(5) + struct.pack("<2f", 1.0, 2.0))
    # Lengths near 65,535, which are no whole datagram: the frame passes as it is.
    long = bytearray(ack[:47])
    struct.pack_into(">H", long, 16, 65533)
    struct.pack_into(">H", long, 38, 65513)
    struct.pack_into(">H", long, 24, 0)
    struct.pack_into(">H", long, 24, checksum(bytes(long[14:34])))
    device.frame(t, server, bytes(long))
    out = device.run(t + 100_000)
    assert out and all(data == bytes(long) for _, _, data in out), out
    t += 200_000
    device.frame(t, server, ack)
    out = device.run(t + 100_000)
    stamped = datagram((SWITCH[0], SWITCH_IP, 48510), GROUP[:2] + (48511,), bytes([0, 0, 2, 0, 3]) + struct.pack("<2f", 1.0, 2.0))
    assert sorted(port for _, port, _ in out) == [0, 1], "both workers of cluster 0 that sent"
    assert all(data == stamped for _, _, data in out), out[0][2][42:].hex()
    out = device.run(t + 100_000_000)
    assert [data for _, _, data in out] == [olaf_update(6, 0.0, [9.0] * 40), olaf_update(1, 3.0, [0.75] * 40),
                                          olaf_update(3, 1.0, [8.0] * 40)]
    assert device.advance(device.now)[2] == -1
    counts = device.counters()
    assert (counts["merged"], counts["subsumed"], counts["appended"], counts["acks"]) == (1, 1, 4, 1), counts
    return "a merge, a replacement and a stamped ACK"


def main():
    protocol, *command = sys.argv[1:]
    device = Lockstep(command)
    assert device.clock_ps > 0 and device.ports >= 4
    done = try_olaf(device) if protocol == "olaf" else try_switchml(device, 64 if "elements=64" in command else 256)
    counts = device.counters()
    assert device.counters() == counts, "counters change with frames alone"
    assert device.quit() == 0
    print(f"{device.name}: {done}; {json.dumps(counts)}")


if __name__ == "__main__":
    main()
