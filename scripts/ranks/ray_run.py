#!/usr/bin/env python3
"""One run from several nodes of a Ray cluster (docs/ranks.md): one task per rank, all at once.

    ray_run.py --address HEAD:6379 --ranks 3 --folder FOLDER EXPERIMENT [FLAGS OF pktgen replay]

FOLDER, EXPERIMENT and pktgen must be seen by all nodes under the same path. The last rank is the parameter server, unless
--roles says otherwise; the whole is in FOLDER/whole.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=1, max_retries=0)
def run(rank: int, ranks: int, job: str, command: list[str]) -> tuple[int, int, str]:
    own = {"PKTGEN_RANK": str(rank), "PKTGEN_RANKS": str(ranks), "PKTGEN_JOB": job}
    done = subprocess.run(command, env=os.environ | own, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return rank, done.returncode, done.stderr.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", required=True, help="the cluster's head, as HOST:PORT")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--folder", required=True, help="new or empty, seen by all nodes")
    parser.add_argument("--strategy", default="STRICT_SPREAD", help="where ranks run; PACK: also several on a node")
    parser.add_argument("--pktgen", default="pktgen", help="the binary on the nodes")
    parser.add_argument("experiment")
    args, flags = parser.parse_known_args()
    folder, experiment = (str(Path(path).resolve()) for path in (args.folder, args.experiment))
    command = [args.pktgen, "replay", experiment, *flags, "--rank", "auto", "--out", folder, "--merge"]

    ray.init(address=args.address, log_to_driver=False, logging_level="warning")
    # All at once or none: a rank without the others waits in vain.
    group = placement_group([{"CPU": 1}] * args.ranks, strategy=args.strategy)
    ray.get(group.ready(), timeout=60)
    job = ray.get_runtime_context().get_job_id()
    at = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i) for i in range(args.ranks)]
    ranks = [run.options(scheduling_strategy=at[i]).remote(i, args.ranks, job, command) for i in range(args.ranks)]
    worst = 0
    for task in ranks:
        try:
            rank, code, said = ray.get(task)
        except ray.exceptions.RayError as fault:
            print(fault, file=sys.stderr)
            worst = max(worst, 1)
            continue
        if said or code:
            print(f"rank {rank}: exit code {code}: {said}", file=sys.stderr)
        # A signal's is negative.
        worst = max(worst, code if code >= 0 else 128 - code)
    print(f"{folder}/whole")
    return worst


if __name__ == "__main__":
    sys.exit(main())
