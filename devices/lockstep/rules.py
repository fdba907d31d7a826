#!/usr/bin/env python3
"""Rules of docs/{switchml,olaf,trio,libra}.md that single packets show, on the aggregators in C: rules.py DEVICE"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rtl" / "test"))
import drive  # noqa: E402

MS = 1_000_000_000


def started(*options, workers=2):
    return drive.Lockstep([sys.argv[1], "--ports", "4", "--workers", str(workers), "--first", "10.0.0.1", "--group", "239.192.0.0", *options])


def ended(device):
    assert device.quit() == 0


def switchml():
    """docs/switchml.md, "The switch": workers_counter."""
    device = started("--protocol", "switchml")
    assert drive.late_copy(device, 64, 2) == 2, "the values of worker 1 alone"
    ended(device)


def olaf():
    """docs/olaf.md, rule 1: an update replaces that of its worker, whatever its size; of another size it does not merge."""
    device = started("--protocol", "olaf-strict", "--up", "3", "--mbps", "1", "--per-cluster", "2")
    ahead, first, second = (drive.olaf_update(0, 0.0, [1.0] * n) for n in (8, 32, 16))
    for t, (w, frame) in enumerate([(0, ahead), (0, first), (0, second), (1, drive.olaf_update(1, 0.0, [2.0] * 32))]):
        device.frame(1000 * t, w, frame)
    # Behind the update there may be bytes that Ethernet padded, and 43 bytes are no update.
    short = drive.datagram(drive.worker(1)[:2] + (48511,), (drive.SWITCH[0], drive.SWITCH_IP, 48510), b"x")
    device.frame(5000, 1, drive.olaf_update(0, 0.0, [4.0] * 16) + bytes(3))
    device.frame(6000, 1, short)
    left = [data for _, _, data in device.run(1000 * MS)]
    assert left == [ahead, short, drive.olaf_update(0, 0.0, [4.0] * 16)], left
    counts = device.counters()
    assert (counts["replaced"], counts["merged"], counts["refused"]) == (2, 0, 1), counts
    ended(device)


def trio(number, block, generation, values=(1,), source=None, count=1):
    source = number if source is None else source
    head = struct.pack(">BIBBBHH", 0, block, 0, source, count, generation, len(values))
    return drive.datagram(drive.worker(number), (drive.SWITCH[0], drive.SWITCH_IP, 12000), head + struct.pack(f">{len(values)}i", *values))


def trio_ml():
    """docs/trio.md: a packet that finds its record sets the REF flag, also if it is refused."""
    # Of an earlier generation, of an unknown source, of several workers.
    for refused in (trio(1, 7, 0), trio(1, 7, 1, source=9), trio(1, 7, 1, count=2)):
        device = started("--protocol", "trio-ml", "--timeout-ms", "10")
        device.frame(0, 0, trio(0, 7, 1))
        for n in (1, 2, 3):
            device.frame(8 * n * MS, 1, refused)
            assert device.run(8 * n * MS) == [], n
        aged = device.run(24 * MS + 20 * MS)
        assert aged and min(t for t, _, _ in aged) >= 34 * MS, aged
        ended(device)


def libra():
    """Results go on after 65,536 of them, if they are acknowledged; with a timeout, too."""
    device = started("--protocol", "libra", "--timeout-ms", "1000", workers=1)
    hub = (drive.SWITCH[0], drive.SWITCH_IP, 0x11B4)
    seq, t, results = 0, 0, 0

    def give(kind, body, number):
        nonlocal t
        t += 1000
        device.frame(t, 0, drive.datagram(drive.worker(0), hub, struct.pack(">BBI", kind << 5, 0, 2 * number) + body))

    for iteration in range(18):
        # 18 registers in a push: 65,520 of them.
        for first in range(0, 65_520, 18):
            give(0, b"".join(struct.pack(">If", first + n, 1.0) for n in range(18)), seq)
            seq += 1
        give(1, struct.pack(">I", iteration), seq)
        seq += 1
        out = [data for _, _, data in device.run(t + 1000) if data[42] >> 5 == 3]
        assert len(out) == 4095, (iteration, len(out))
        for _ in out:
            give(2, b"", results)
            results += 1
    assert results > 65_536
    ended(device)


def libra_silent():
    """A result goes out 16 times to a worker that acknowledges nothing, then it is given up, and counted."""
    device = started("--protocol", "libra", "--timeout-ms", "1", workers=2)
    hub = (drive.SWITCH[0], drive.SWITCH_IP, 0x11B4)
    for w in (0, 1):
        device.frame(w, w, drive.datagram(drive.worker(w), hub, struct.pack(">BBII", 1 << 5, 0, 0, 0)))
    out = [(t, port) for t, port, data in device.run(10_000 * MS) if data[42] >> 5 == 3]
    assert [sum(port == own for _, port in out) for own in (0, 1)] == [16, 16], out
    # 1 ms, doubled up to ten times.
    gaps = [b - a for (a, _), (b, _) in zip(out[::2], out[2::2])]
    assert [gap // MS for gap in gaps] == [1 << min(n, 10) for n in range(15)], gaps
    counts = device.counters()
    assert (counts["results"], counts["duplicated"], counts["given_up"]) == (1, 30, 1), counts
    ended(device)


if __name__ == "__main__":
    for rule in (switchml, olaf, trio_ml, libra, libra_silent):
        rule()
        print(f"{rule.__name__}: right")
