#!/usr/bin/env python3
"""A sweep of 1,000 runs on a Ray cluster of two nodes, with one worker and one process killed half-way, against the same
sweep in one process: nothing may be lost or counted twice, and metrics, report and every file must be the same.

    test_ray.py PKTGEN

Called by `test-ray`, which sees to it that Ray is there. Both nodes are on this machine, with one core each.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster  # noqa: E402

HERE = Path(__file__).resolve().parent
EXPERIMENT = HERE / "thousand.toml"
RUNS, SHARDS = 1000, 20
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
# Finished runs before the worker is killed, and before the process is.
WORKER_AT, PROCESS_AT = 200, 500


def finished(folder: Path) -> int:
    """Runs in `folder` whose manifest says that they are complete."""
    return sum('"state": "finished"' in path.read_text() for path in folder.glob("*/manifest.json"))


def at_work(folder: Path) -> list[tuple[int, int, Path]]:
    """The processes that do shards in `folder`: number, the parent's, the shard's folder."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            words = (proc / "cmdline").read_bytes().split(b"\0")
            parent = int((proc / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        outs = [os.fsdecode(words[i + 1]) for i, word in enumerate(words[:-1]) if word == b"--out"]
        if b"--shard" in words and outs and Path(outs[0]).parent == folder:
            found.append((int(proc.name), parent, Path(outs[0])))
    return found


def kill_one(folder: Path, worker: bool) -> tuple[str, int]:
    """Kills the worker of a shard that is under way, or its process; returns which and how many runs it had."""
    for _ in range(10_000):
        for process, parent, shard in at_work(folder):
            if 2 <= finished(shard) <= RUNS // SHARDS - 10:
                os.kill(parent if worker else process, signal.SIGKILL)
                return shard.name, finished(shard)
        time.sleep(0.005)
    sys.exit("FAILED: no shard was ever under way")


def contents(sweep: Path) -> dict[str, bytes]:
    """Every file of a sweep; of manifests without when they were made, by which command, and their digest of that."""
    files = {}
    for path in sorted(path for path in sweep.rglob("*") if path.is_file() and not path.name.startswith("report.")):
        data = path.read_bytes()
        if path.name == "manifest.json":
            manifest = json.loads(data)
            manifest["created_unix_ns"] = manifest["command"] = manifest["digest"] = 0
            data = json.dumps(manifest).encode()
        files[str(path.relative_to(sweep))] = data
    return files


def check(what: str, right: bool) -> None:
    print(("ok: " if right else "FAILED: ") + what, flush=True)
    if not right:
        sys.exit(1)


def on_cluster(pktgen: str, folder: Path) -> str:
    """Runs the sweep on a cluster of two nodes and kills; returns what the driver said."""
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    session = cluster.head_node.get_session_dir_path()
    driver = None
    try:
        cluster.add_node(**NODE)
        command = [HERE / "ray_sweep.py", "--address", cluster.address, "--shards", SHARDS, "--folder", folder]
        command = [sys.executable, *command, "--pktgen", pktgen, EXPERIMENT]
        driver = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        killed = {}
        for at, worker in [(WORKER_AT, True), (PROCESS_AT, False)]:
            while driver.poll() is None and sum(map(finished, folder.glob("shard-*"))) < at:
                time.sleep(0.5)
            check(f"the driver is at work at {at} runs", driver.poll() is None)
            shard, runs = kill_one(folder, worker)
            killed[shard] = runs
            print(f"killed the {'worker' if worker else 'process'} of {shard}, which had {runs} of its runs", flush=True)
        said, _ = driver.communicate(timeout=900)
    finally:
        if driver and driver.poll() is None:
            driver.kill()
        cluster.shutdown()
        shutil.rmtree(session, ignore_errors=True)
        latest = Path(session).parent / "session_latest"
        if latest.is_symlink() and not latest.exists():
            latest.unlink()
        with contextlib.suppress(OSError):
            latest.parent.rmdir()
    check("the driver ends well", driver.returncode == 0)
    for shard, runs in killed.items():
        index = shard.split("-")[1]
        kept = re.search(rf"^shard {index}/{SHARDS}: \d+ runs, (\d+) of them from before", said, re.M)
        check(f"{shard} was begun again and kept its {runs} runs", bool(kept) and int(kept[1]) >= runs)
    return said


def main() -> None:
    pktgen = str(Path(sys.argv[1]).resolve())
    work = Path(tempfile.mkdtemp(prefix="pktgen-"))
    try:
        one, many = work / "one", work / "many"
        start = time.monotonic()
        subprocess.run([pktgen, "-q", "replay", EXPERIMENT, "--no-report", "--out", one / "whole"], stdout=subprocess.DEVNULL, check=True)
        alone = time.monotonic() - start
        start = time.monotonic()
        many.mkdir()
        said = on_cluster(pktgen, many)
        print(said, end="")
        spent = time.monotonic() - start
        print(f"{RUNS} runs: {alone:.1f} s in one process, {spent:.1f} s on the cluster, its start included")
        check("both nodes took part", len(set(re.findall(r"on node (\w+)", said))) == 2)
        each = [finished(shard) for shard in sorted(many.glob("shard-*"))]
        check(f"{SHARDS} shards hold {RUNS} runs", len(each) == SHARDS and sum(each) == RUNS)
        check("every file of the sweep is the same", contents(one / "whole") == contents(many / "whole"))
        check(f"the whole has {RUNS} runs", finished(many / "whole") == RUNS)
        lines = []
        for folder in (one, many):
            lines.append(subprocess.check_output([pktgen, "-q", "analyze", "whole", "--json"], cwd=folder))
            subprocess.run([pktgen, "-q", "report", "whole"], cwd=folder, stdout=subprocess.DEVNULL)
        check(f"all {lines[0].count(10)} lines of metrics are the same", lines[0] == lines[1] and len(lines[0]) > RUNS)
        reports = [json.loads((folder / "whole" / "report.json").read_bytes()) for folder in (one, many)]
        made = [report.pop("made") for report in reports]
        check("the report is the same", reports[0] == reports[1] and reports[0]["verdict"]["valid"] is True)
        check("its provenance is too", made[0]["seeds"] == made[1]["seeds"] and made[0]["commit"] == made[1]["commit"])
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
