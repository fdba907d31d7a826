"""Scripts, with stubs in place of the programs that they call."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, text: str) -> Path:
    """A program of a few lines of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def called(*words: object, **settings: object) -> subprocess.CompletedProcess[str]:
    """A call with these environment variables; one that hangs is an error."""
    env = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    return subprocess.run([str(word) for word in words], env=env, capture_output=True, text=True, timeout=600)


def alive(pid: str) -> bool:
    return Path("/proc", pid.strip()).exists()


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script as a module."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    loader.exec_module(module := module_from_spec(spec))
    return module


def test_intervals_that_touch_0_are_shown_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = loaded("evidence", monkeypatch)
    points = [{"labels": {"variant": name}, "config": "x", "metric": "loss", "median": 0.5, "lo": lo, "hi": 0.5, "n": 5} for name, lo in [("a", 0.25), ("b", 0.0)]]
    reading = {"metric": "loss", "relation": "ratio", "at": {"variant": "a"}, "against": {"variant": "b"}, "by": None}
    ((_, ours),) = evidence.values(reading, "×", points, ["share"])
    assert evidence.interval(ours) == "0.5 to ∞, 5 seeds"
    assert evidence.verdict({"unit": "×", "value": 9}, [({}, ours)])[0] == "agrees"
    assert evidence.finite(ours["hi"]) is None and evidence.finite(ours["lo"]) == 0.5 and evidence.finite(None) is None


JUDGE = """
import multiprocessing, runpy, sys
multiprocessing.set_start_method("{method}")
script, sys.argv = sys.argv[1], sys.argv[1:]
sys.path.insert(0, script.rpartition("/")[0])
runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_judge_rates_has_its_load_however_processes_start(tmp_path: Path, method: str) -> None:
    pktgen = program(tmp_path / "pktgen", 'sleep 0.1\nfor last; do :; done\nmkdir "$last"')
    words = ["--same", 1, "--planted", 0, "--rounds", 8, "--load", 1, "--json"]
    done = called(sys.executable, "-c", JUDGE.format(method=method), ROOT / "scripts/judge-rates", pktgen, *words)
    assert (done.returncode, done.stderr) == (0, "") and '"load": 1' in done.stdout


DEAD = """
import importlib.machinery, importlib.util, multiprocessing, sys
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
loader = importlib.machinery.SourceFileLoader("judge_rates", sys.argv[1])
judge = importlib.util.module_from_spec(importlib.util.spec_from_loader("judge_rates", loader))
loader.exec_module(judge)
# A load that ends at once, and tries that wait for that.
judge.busy = bool
judge.tries = lambda *_: [child.join() for child in multiprocessing.active_children()] and []
sys.argv = ["judge-rates", "pktgen", "--load", "1"]
judge.main()
"""


def test_judge_rates_refuses_a_load_that_ended() -> None:
    done = called(sys.executable, "-c", DEAD, ROOT / "scripts/judge-rates")
    assert done.returncode == 1 and "a process of --load ended" in done.stderr and done.stdout == ""


def test_steer_rates_ends_if_tcpdump_does_not_listen(tmp_path: Path) -> None:
    for tool in ("ip", "sysctl"):
        program(tmp_path / tool, "")
    program(tmp_path / "tcpdump", "echo 'x.pcap: Permission denied' >&2\nexit 1")
    done = called(sys.executable, ROOT / "scripts/steer_rates.py", 1, 0, PATH=f"{tmp_path}:{os.environ['PATH']}", PKTGEN="/bin/false")
    assert done.returncode == 1 and "tcpdump ended with 1 before it listened: x.pcap: Permission denied" in done.stderr


def test_steer_rates_leaves_no_process_behind(tmp_path: Path) -> None:
    for tool in ("ip", "sysctl"):
        program(tmp_path / tool, "")
    program(tmp_path / "tcpdump", f"echo $$ >{tmp_path}/pid\necho listening >&2\nexec sleep 1000")
    done = called(sys.executable, ROOT / "scripts/steer_rates.py", 1, 0, PATH=f"{tmp_path}:{os.environ['PATH']}", PKTGEN="/bin/false")
    assert done.returncode == 1 and "no run began" in done.stderr
    assert not alive((tmp_path / "pid").read_text())


def netns(folder: Path) -> None:
    """Stubs of root's tools: commands in namespaces are executed where they are, and all else is nothing."""
    program(folder / "ip", 'case "$1 $2" in "netns exec") shift 3; exec "$@";; "netns pids") cat "$STUBS/pid" 2>/dev/null; exit 0;; esac')
    program(folder / "taskset", 'shift 2; exec "$@"')
    program(folder / "id", "echo 0")
    for tool in ("ethtool", "sysctl"):
        program(folder / tool, "")


def test_capture_rates_leaves_no_capture_behind(tmp_path: Path) -> None:
    netns(stubs := tmp_path / "stubs")
    # The interface of a namespace has no counters here.
    program(stubs / "cat", "echo 0")
    program(stubs / "tcpdump", f"echo $$ >{tmp_path}/pid\nexec sleep 1000")
    words = {"TOOLS": "tcpdump", "BLAST": "/bin/false", "COUNT": 1, "RATES": 0, "OUT": tmp_path / "out", "PKTGEN": "/bin/false"}
    done = called(ROOT / "scripts/capture-rates", PATH=f"{stubs}:{os.environ['PATH']}", STUBS=stubs, **words)
    assert done.returncode == 1, done.stderr
    assert not alive((tmp_path / "pid").read_text())
    assert not (tmp_path / "out/now").exists()


def test_scripts_with_namespaces_end_what_they_started() -> None:
    scripts = {path.name: path.read_text() for path in (ROOT / "scripts").iterdir() if path.is_file()}
    backgrounds = {name: text for name, text in scripts.items() if "netns add" in text and re.search(r"[^&]&$", text, re.MULTILINE)}
    assert {"testbed", "capture-rates", "rates"} <= set(backgrounds)
    assert [name for name, text in backgrounds.items() if not re.search(r"^trap '.*kill \$\(jobs -p\)", text, re.MULTILINE)] == []


def device_rates(folder: Path, device: str) -> list[str]:
    """Lines of devices/rates with such devices, and a pktgen that ends them."""
    netns(stubs := folder / "stubs")
    (folder / "devices").mkdir()
    shutil.copy(ROOT / "devices/rates", folder / "devices/rates")
    for name in ("swx/swx", "bench/device"):
        program(folder / "target/devices" / name, device)
    program(folder / "target/devices/swx/tables", "")
    replay = 'read pid <"$STUBS/pid"; kill "$pid"; while kill -0 "$pid" 2>/dev/null; do :; done; rm "$STUBS/pid"; exit 1'
    pktgen = program(folder / "pktgen", f'case "$1 $2" in "device plan") ;; target*) {device};; *replay) {replay};; esac')
    done = called(folder / "devices/rates", PATH=f"{stubs}:{os.environ['PATH']}", STUBS=stubs, PKTGEN=pktgen)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_device_rates_skips_devices_that_do_not_start(tmp_path: Path) -> None:
    lines = device_rates(tmp_path, "echo 'no XDP here' >&2; exit 1")
    assert len(lines) == 8 and all(line.endswith(" values  SKIPPED: the device does not start: no XDP here") for line in lines), lines


def test_device_rates_has_no_time_of_a_device_that_ended(tmp_path: Path) -> None:
    lines = device_rates(tmp_path, 'echo $$ >"$STUBS/pid"; echo ready; exec sleep 1000')
    assert len(lines) == 8 and all(line.endswith(" values  the device ended during the run: ready") for line in lines), lines


@pytest.mark.parametrize(("parameter", "kept"), [({"ends": [0, 1e9]}, False), ({"ends": [-2, -1]}, True), (None, True)])
def test_calibrate_planted_keeps_what_went_wrong(tmp_path: Path, parameter: dict[str, object] | None, kept: bool) -> None:
    rows = [{**(parameter or {}), "name": name, "state": "determined", "width": 0.1} for name in "abc"]
    answer = json.dumps({"answer": {"parameters": rows, "settings": 1, "together": True}})
    write = f"mkdir a; echo '{answer}' >a/calibration.json" if parameter else "echo refused >&2; exit 1"
    pktgen = program(tmp_path / "pktgen", f'case "$*" in *" calibrate "*) {write};; esac')
    done = called(ROOT / "scripts/calibrate-planted", "fifo", PKTGEN=pktgen, OUT=tmp_path / "out", CALIBRATIONS=1)
    assert done.returncode == 0 or parameter is None, done.stderr
    assert (tmp_path / "out/fifo-0/twin.toml").exists() == kept
    assert (tmp_path / "out/fifo-0/a/calibration.json").exists() == (kept and parameter is not None)
