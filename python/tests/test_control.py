"""A run in progress, steered by `pktgen.Control`."""

import json
import socket
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

import pktgen

EXPERIMENT = """
name = "steered"
[workload]
clusters = 2
workers_per_cluster = 2
updates = 100000
bytes = "256B"
[schedule]
kind = "poisson"
offered = "2Mbps"
[topology]
rate = "5Mbps"
[target]
program = "olaf"
queue = "olaf"
[transport]
kind = "ring"
wait = "block"
"""


def test_a_run_is_paused_sped_up_and_ended() -> None:
    Path("x.toml").write_text(EXPERIMENT)
    words = [str(pktgen.binary()), "-q", "replay", "x.toml", "--no-report", "--out", "out", "--control", "c.sock", "--hold"]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    while not Path("c.sock").exists():
        assert run.poll() is None
        time.sleep(0.01)
    with pktgen.Control("c.sock") as control:
        while control.status().run is None:
            time.sleep(0.01)
        state = control.status()
        assert state.held and state.speed == 1.0 and state.changes == 0 and state.pps is not None
        events = control.events()
        # A number of numpy that is no float of Python.
        half = pl.Series([0.5], dtype=pl.Float32).to_numpy()[0]
        applied = [control.start(), control.rate(2 * state.pps), control.pause(), control.resume(), control.factor(half)]
        assert applied == sorted(applied)
        with pytest.raises(pktgen.PktgenError, match="above 0"):
            control.rate(0)
        # The run dir names the socket.
        with pktgen.Control("out") as other:
            assert other.status().speed == pytest.approx(1.0)
        stopped = control.stop()
    assert run.wait() == 1
    seen = list(events)
    assert [event.event for event in seen] == ["change"] * 6 + ["end"]
    assert [event.applied_ps for event in seen[:-1]] == [*applied, stopped]
    table = pl.read_parquet("out/controls.parquet")
    assert table["applied_ps"].to_list() == [*applied, stopped]
    assert table["held"].to_list() == [False, False, True, False, False, False]
    assert table["speed"].to_list() == pytest.approx([1.0, 2.0, 2.0, 2.0, 1.0, 1.0])
    assert table["stopped"].to_list() == [False] * 5 + [True]
    with pytest.raises(pktgen.UsageError, match="no run dir of a run in progress"):
        pktgen.Control("out")
    # A later run on the same path is not the one that ended.
    words[words.index("out")] = "out2"
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as run:
        while not Path("c.sock").exists():
            assert run.poll() is None
            time.sleep(0.01)
        with pytest.raises(pktgen.UsageError, match="no run dir of a run in progress"):
            pktgen.Control("out")
        with pktgen.Control("c.sock") as control:
            while control.status().run is None:
                time.sleep(0.01)
            control.stop()
        run.wait()


def test_a_folder_names_the_only_run_in_progress_below_it() -> None:
    def noted(name: str) -> socket.socket:
        (Path("all") / name).mkdir(parents=True)
        path = f"{name}.sock"
        manifest = {"state": "running", "host": {"control.socket": path}}
        (Path("all") / name / "manifest.json").write_text(json.dumps(manifest))
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen()
        return listening

    first, second = noted("a"), noted("b")
    with pytest.raises(pktgen.UsageError, match="2 runs are in progress there; name one, as all/a"):
        pktgen.Control("all")
    # The socket of a killed run stays, and nothing listens there.
    first.close()
    pktgen.Control("all").close()
    second.close()
    with pytest.raises(pktgen.UsageError, match="no run dir of a run in progress"):
        pktgen.Control("all")


def test_a_reply_to_an_interrupted_command_is_not_that_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def readline(self) -> str:
            raise KeyboardInterrupt

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("late.sock")
        listening.listen()
        with pktgen.Control("late.sock") as control:
            run, _ = listening.accept()
            with monkeypatch.context() as patch:
                patch.setattr(control, "_lines", Interrupted())
                with pytest.raises(KeyboardInterrupt):
                    control.pause()
            with run:
                for number, applied in [(1, 5), (2, 9)]:
                    reply = {"v": 1, "id": number, "ok": True, "applied_ps": applied}
                    run.sendall((json.dumps(reply) + "\n").encode())
                assert control.resume() == 9


def test_the_reason_of_a_run_that_refuses_a_client_is_read() -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("full.sock")
        listening.listen()
        with pktgen.Control("full.sock") as control:
            refusing, _ = listening.accept()
            refusing.sendall(b'{"ok":false,"error":"16 clients are connected; close one"}\n')
            refusing.close()
            with pytest.raises(pktgen.PktgenError, match="status: 16 clients are connected"):
                control.status()
            with pytest.raises(pktgen.HostError, match="closed the connection"):
                control.status()


def test_a_refused_follower_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("full.sock")
        listening.listen()
        with pktgen.Control("full.sock") as control, listening.accept()[0]:
            stream = control._connect()
            monkeypatch.setattr(control, "_connect", lambda: stream)
            with listening.accept()[0] as refusing:
                refusing.sendall(b'{"ok":false,"error":"16 clients are connected; close one"}\n')
            with pytest.raises(pktgen.PktgenError, match="events: 16 clients are connected"):
                control.events()
            assert stream.fileno() == -1
