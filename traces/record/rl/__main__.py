"""Records asynchronous distributed PPO on LunarLander-v3 (OLAF §2.1) as a trace: traces/record/python -m rl --help"""

import argparse

import numpy as np

from common import FRAME_MAX, HEAD, UPDATE_HEAD, frame_bytes, half, ps, write_trace
from rl import processes, virtual
from rl.ppo import Settings
from rl.server import Gate, Server, Step


def arguments():
    """The recorded set is what the defaults make."""
    parser = argparse.ArgumentParser(prog="python -m rl", description=__doc__)
    add = parser.add_argument
    add("out", help="trace to write (.parquet); the sample of gradients is written beside it")
    add("--time", choices=("virtual", "real"), default="virtual", help="virtual: a seed decides all")
    add("--mode", choices=Server.MODES, default="async")
    add("--gate", choices=Gate.KINDS, default="off")
    add("--step", choices=Step.KINDS, default="adam", help="average: the paper's, plain steps")
    add("--rate", type=float, default=0.001, help="step size of the server")
    add("--hidden", default="32,32", help="widths of the hidden layers, as 16 or 64,64")
    add("--clusters", type=int, default=9)
    add("--workers", type=int, default=3, help="workers in each cluster")
    add("--updates", type=int, default=200, help="updates that the slowest worker has in the end")
    add("--spread", type=float, default=1.5, help="how much slower the slowest cluster is than the fastest")
    add("--limit", type=int, default=500, help="steps after which an episode is cut")
    add("--every", type=int, default=25, help="the sample has every so manieth update of a worker")
    add("--exact", action="store_true", help="gradients are not rounded to 16 bits")
    add("--seed", type=int, default=1)
    add("--jobs", type=int, default=1, help="processes that compute in virtual time; the result is the same")
    return parser.parse_args()


def record(args, progress=None):
    """The log of a run as the arguments say it."""
    settings = Settings(hidden=tuple(int(x) for x in args.hidden.split(",")), limit=args.limit)
    count = args.clusters * args.workers
    server = Server(args.mode, count, Gate(args.gate), Step(args.step, args.rate))

    def enough(log):
        if progress and log.reward and len(log.reward) % 100 == 0:
            progress(log)
        return len(log.counts) == count and min(log.counts.values()) >= args.updates

    place = (args.clusters, args.workers, args.spread, args.seed)
    if args.time == "virtual":
        return virtual.Run(settings, server, *place, args.jobs).go(enough)
    return processes.record(settings, server, *place, enough)


# Numbers in the largest frame.
ELEMENTS = (FRAME_MAX - HEAD - UPDATE_HEAD) // 4


def frames(log, rows):
    """Of each frame its update, and where its part of the gradient begins: longer gradients need several, all at one time."""
    return [(i, at) for i in rows for at in range(0, len(log.gradient[i]), ELEMENTS)]


def columns(log, rows):
    """The trace's columns without values, of some rows; sequence numbers count from 0 among these."""
    parts = frames(log, rows)
    rows = [i for i, _ in parts]
    seen, seq = {}, []
    for i in rows:
        seq.append(seen.get(log.worker[i], 0))
        seen[log.worker[i]] = seq[-1] + 1
    return {
        "t_ps": [ps(log.seconds[i]) for i in rows],
        "cluster": [log.cluster[i] for i in rows],
        "worker": [log.worker[i] for i in rows],
        "seq": seq,
        "bytes": [frame_bytes(len(log.gradient[i][at : at + ELEMENTS])) for i, at in parts],
        "reward": np.array([log.reward[i] for i in rows], np.float32),
    }


def write(args, log):
    """The trace, and a sample with gradients, whose column iteration is the update's number in the trace."""
    details = {f"argument {key}": value for key, value in vars(args).items() if key not in ("out", "jobs")}
    details |= {"task": "LunarLander-v3, PPO", **log.summary(), "log sha256": log.hash()}
    write_trace(args.out, columns(log, range(len(log.reward))), details, "CC0-1.0")
    rows = [i for i in range(len(log.reward)) if log.seq[i] % args.every == 0]
    sample = columns(log, rows)
    parts = frames(log, rows)
    sample["values"] = [(log.gradient[i] if args.exact else half(log.gradient[i]))[at : at + ELEMENTS] for i, at in parts]
    sample["iteration"] = [log.seq[i] for i, _ in parts]
    write_trace(args.out.replace(".parquet", "-gradients.parquet"), sample, details, "CC0-1.0")


def main():
    """Records, writes, and says what there is."""
    args = arguments()

    def progress(log):
        recent = log.reward[-100:]
        print(f"{len(log.reward):6} updates  {log.seconds[-1]:8.1f} s  mean reward {np.mean(recent):7.1f}", flush=True)

    log = record(args, progress)
    write(args, log)
    for name, value in log.summary().items():
        print(f"{name}: {value}")
    print("sha256 of the log:", log.hash())


if __name__ == "__main__":
    main()
