#!/usr/bin/env python3
"""A sweep over a Ray cluster: one task per shard, then the merge.

    ray_sweep.py --address HEAD:6379 --shards 64 --folder FOLDER EXPERIMENT [FLAGS OF pktgen replay]

A shard whose worker or process died is begun again, on whichever node is free, and goes on from its last finished run.
FOLDER must be seen by all nodes under the same path, as must EXPERIMENT and pktgen.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import ray


class Unfinished(Exception):
    """The process died or was stopped: another may go on."""


class Wrong(Exception):
    """The command or the host is wrong: another process would fail alike."""


@ray.remote(num_cpus=1)
def run(shard: int, shards: int, folder: str, command: list[str]) -> dict:
    out = str(Path(folder) / f"shard-{shard}-of-{shards}")
    flags = ["--jobs", "1", "--shard", f"{shard}/{shards}", "--out", out, "--json"]
    done = subprocess.run([*command, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = f"shard {shard}/{shards}: exit code {done.returncode}: {done.stderr.strip()}"
    if done.returncode in (2, 3):
        raise Wrong(said)
    # Also with exit code 1: a finished run may be invalid, and the merge says so.
    told = json.loads(done.stdout) if done.stdout.strip() else {"finished": 0, "runs": None}
    if told["finished"] != told["runs"]:
        raise Unfinished(said)
    told["node"] = ray.get_runtime_context().get_node_id()[:8]
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", required=True, help="the cluster's head, as HOST:PORT")
    parser.add_argument("--shards", type=int, required=True, help="several times as many as cores, so that none waits")
    parser.add_argument("--folder", required=True, help="for the shards and, in FOLDER/whole, the sweep")
    parser.add_argument("--retries", type=int, default=5, help="how often a shard is begun again [5]")
    parser.add_argument("--pktgen", default="pktgen", help="the binary on the nodes")
    parser.add_argument("experiment")
    args, flags = parser.parse_known_args()
    folder = str(Path(args.folder).resolve())
    replay = [args.pktgen, "replay", str(Path(args.experiment).resolve()), *flags]

    ray.init(address=args.address, log_to_driver=False, logging_level="warning")
    # max_retries alone is for workers that die; retry_exceptions is for processes that do.
    task = run.options(max_retries=args.retries, retry_exceptions=[Unfinished])
    waiting = [task.remote(shard, args.shards, folder, replay) for shard in range(1, args.shards + 1)]
    failed = 0
    while waiting:
        [ready], waiting = ray.wait(waiting)
        try:
            told = ray.get(ready)
            runs = f"{told['finished']} runs, {told['kept']} of them from before"
            print(f"shard {told['shard']}: {runs}, on node {told['node']}", flush=True)
        except (ray.exceptions.RayError, Wrong, Unfinished) as fault:
            failed += 1
            print(fault, file=sys.stderr)
            if isinstance(fault, Wrong):
                return 2
    # Merged in any case: it names what is missing.
    shards = [f"{folder}/shard-{shard}-of-{args.shards}" for shard in range(1, args.shards + 1)]
    return subprocess.run([args.pktgen, "merge", *shards, "-o", f"{folder}/whole"]).returncode or int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
