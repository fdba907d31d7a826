"""The runs of scripts/steer-rates, in a network namespace of their own. Called by that script."""

import bisect
import contextlib
import json
import os
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CHANGES, ROUNDS = int(sys.argv[1]), int(sys.argv[2])
PKTGEN = os.environ["PKTGEN"]
EXPERIMENT = """
name = "steered"
[workload]
kind = "rl"
clusters = 1
workers_per_cluster = 1
updates = {updates}
bytes = "256B"
[schedule]
kind = "constant"
period = "{period}us"
[transport]
kind = "af_packet"
interfaces = ["s0", "", "", ""]
wait = "spin"
pacing = "{pacing}"
linger = "0ms"
"""


def experiment(folder: Path, updates: int, pps: int, pacing: str = "deadlines") -> Path:
    path = folder / "x.toml"
    path.write_text(EXPERIMENT.format(updates=updates, period=1_000_000 // pps, pacing=pacing))
    return path


def captured(path: Path) -> list[tuple[int, int]]:
    """When frames arrived at the other end, in ns since 1970, and when they were generated and due, as they say, in ps of the run."""
    data, at, found = path.read_bytes(), 24, []
    while at + 16 <= len(data):
        seconds, ns, kept, _ = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 10**9 + ns, struct.unpack_from(">q", data, at + 16 + 56)[0]))
        at += 16 + kept
    return found


class Control:
    def __init__(self, path: Path, run: subprocess.Popen) -> None:
        while run.poll() is None:
            try:
                self.stream = socket.socket(socket.AF_UNIX)
                self.stream.connect(str(path))
                self.lines = self.stream.makefile("r")
                if self.ask("status")["state"]["run"]:
                    return
            except OSError:
                pass
            time.sleep(0.005)
        raise SystemExit("no run began")

    def ask(self, cmd: str, **args: float) -> dict:
        self.stream.sendall((json.dumps({"v": 1, "id": 1, "cmd": cmd, "args": args}) + "\n").encode())
        return json.loads(self.lines.readline())


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@contextlib.contextmanager
def started(words: list, **options: object) -> Iterator[subprocess.Popen]:
    """A process that is killed if the block ends before it does."""
    with subprocess.Popen(words, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def steered(folder: Path, word: str, changes: int) -> tuple[Path, Path, list[tuple[int, int, int]]]:
    """A run with so many changes, or without, its capture at the other end, and for each change when it was asked for, when it applied and the rate."""
    out, sock, heard = folder / f"steered-{word}", folder / "c.sock", folder / f"{word}.pcap"
    words = ["tcpdump", "-i", "s1", "-Z", "root", "-B", "65536", "-s", "96", "--time-stamp-precision=nano", "-w", heard, "udp"]
    with started(words, stderr=subprocess.PIPE, text=True) as listener:
        said = []
        for line in listener.stderr:
            said.append(line.strip())
            if "listening" in line:
                break
        else:
            raise SystemExit(f"tcpdump ended with {listener.wait()} before it listened: {' '.join(said) or 'it printed nothing'}")
        path = experiment(folder, 10_000_000, 20_000)
        words = [PKTGEN, "-q", "replay", path, "--role", "workers", "--out", out, "--control", sock, "--hold"]
        with started(words, stdout=subprocess.DEVNULL) as run:
            replies = steer(Control(sock, run), word, changes)
            run.wait()
        # tcpdump is handed what it captured once a second.
        time.sleep(1.5)
        listener.terminate()
        listener.wait()
    return out, heard, replies


def steer(control: Control, word: str, changes: int) -> list[tuple[int, int, int]]:
    """Starts the run, changes its rate or only asks for its state, and stops it."""
    control.ask("start")
    replies, chance = [], random.Random(1)
    time.sleep(0.3)
    for _ in range(changes):
        if word == "with":
            pps = chance.choice([5000, 8000, 12000, 20000, 30000, 40000])
            asked = control.ask("status")["state"]["t_ps"]
            reply = control.ask("rate", pps=pps)
            assert reply["ok"], reply
            replies.append((asked, reply["applied_ps"], pps))
        elif word == "asked-without":
            control.ask("status")
            control.ask("status")
        time.sleep(0.010)
    time.sleep(0.3)
    control.ask("stop")
    return replies


def changed(folder: Path, changes: int) -> None:
    """A run with so many changes, one without, and one in which the client asks as often and changes nothing, as a capture at the other end sees them."""
    for word in ("with", "without", "asked-without"):
        out, heard, replies = steered(folder, word, changes)
        anchor = manifest(out)["anchor_unix_ns"]
        frames = captured(heard)
        due = [due for _, due in frames]
        arrived = [(t - anchor) * 1000 for t, _ in frames]
        sent = re.search(r"sent (\d+)", manifest(out)["host"]["frames.workers"])[1]
        assert len(frames) == int(sent), f"{sent} frames left, {len(frames)} were captured"
        if replies:
            in_force(due, arrived, replies)
        # A frame that is late makes its gap wrong by as much as the gap is long: those of one rate are compared.
        gaps = zip(arrived, arrived[1:], due, due[1:])
        error = [abs((b - a) - (d - c)) / 1e6 for a, b, c, d in gaps if abs(d - c - 50e6) < 1e3]
        print(
            f"{word} changes: {len(due)} frames; error of {len(error)} gaps of 50 us at the other end p50 {quantile(error, .5):.3f} p99 {quantile(error, .99):.3f} us; "
            f"lateness {manifest(out)['host']['lateness']}",
            flush=True,
        )


def in_force(due: list[int], arrived: list[int], replies: list[tuple[int, int, int]]) -> None:
    """When the first frame at the new rate arrived, against when that was asked for; and whether due gaps are those of the rate."""
    after, wrong = [], 0
    for i, (asked, applied, pps) in enumerate(replies):
        first = bisect.bisect_left(due, applied)
        last = bisect.bisect_left(due, replies[i + 1][1]) if i + 1 < len(replies) else len(due)
        # Picoseconds of rounding, one for each frame.
        wrong += sum(abs((b - a) - 1e12 / pps) > 3 for a, b in zip(due[first:last], due[first + 1 : last]))
        if first < last:
            after.append((arrived[first] - asked) / 1e9)
    print(
        f"{len(replies)} changes, {len(after)} with frames: the first frame at the new rate arrived p50 {quantile(after, .5):.2f} p99 {quantile(after, .99):.2f} "
        f"most {max(after):.2f} ms after it was asked for, {sum(ms <= 10 for ms in after)} of {len(after)} within 10 ms; {wrong} due gaps of another rate",
        flush=True,
    )


def manifest(out: Path) -> dict:
    return json.loads((out / "manifest.json").read_text())


def cost(folder: Path, rounds: int) -> None:
    """Top rate, and p99 of lateness at 50,000 packets/s, without and with what looks on, in turns."""
    kinds = ["nothing", "stats", "control", "tui"]
    for what, pps, pacing, updates in [("top rate", 50_000, "top", 1_000_000), ("lateness p99", 50_000, "deadlines", 200_000)]:
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        for round in range(rounds):
            order = kinds[round % len(kinds) :] + kinds[: round % len(kinds)]
            for kind in order:
                out = folder / f"{pacing}-{kind}-{round}"
                path = experiment(folder, updates, pps, pacing)
                flags = {"nothing": [], "stats": ["--stats", "1s", "--stats-to", folder / f"{pacing}-{kind}-{round}.csv"],
                         "control": ["--control", folder / "k.sock"], "tui": ["--tui"]}[kind]
                command = " ".join(map(str, [PKTGEN, "replay", path, "--role", "workers", "--set", "capture.records=none", "--out", out, *flags]))
                name = f"steer-{os.getpid()}"
                subprocess.run(["tmux", "-L", name, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", f"{command}; echo $? > {out}.code"], check=True)
                while not Path(f"{out}.code").exists():
                    time.sleep(0.1)
                host = manifest(out)["host"]
                if pacing == "top":
                    found[kind].append(float(host["rate.achieved"].split()[0]))
                else:
                    found[kind].append(int(re.search(r"p99 (\d+) ns", host["lateness"])[1]) / 1e3)
        unit = "packets/s" if pacing == "top" else "us"
        base = statistics.median(found["nothing"])
        for kind in kinds:
            middle = statistics.median(found[kind])
            print(f"{what} with {kind}: median {middle:.1f} {unit} ({middle / base:.3f}); {min(found[kind]):.1f} to {max(found[kind]):.1f}", flush=True)


def main() -> None:
    ip = lambda *words: subprocess.run(["ip", *words], check=True)
    ip("link", "set", "lo", "up")
    ip("link", "add", "s0", "type", "veth", "peer", "name", "s1")
    for name in ("s0", "s1"):
        subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1"], check=False)
        ip("link", "set", name, "up")
    with tempfile.TemporaryDirectory() as folder:
        changed(Path(folder), CHANGES)
        if ROUNDS:
            cost(Path(folder), ROUNDS)


main()
