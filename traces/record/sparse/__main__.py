"""Records synchronous training of word embeddings as a sparse trace: traces/record/python -m sparse --help"""

import argparse
import hashlib

import numpy as np

from common import FRAME_MAX, HEAD, half, ps, write_trace
from sparse.model import Corpus, Embeddings
from text import verses

# A key and a value of 32 bits each on the wire.
PAIR = 8
# Seconds: what an iteration takes, and how much that varies.
ITERATION_S, VARIATION = 2e-3, 0.2


def arguments():
    """The recorded set is what the defaults make."""
    parser = argparse.ArgumentParser(prog="python -m sparse", description=__doc__)
    add = parser.add_argument
    add("out", help="trace to write (.parquet)")
    add("--workers", type=int, default=8)
    add("--iterations", type=int, default=3000, help="iterations of the training")
    add("--every", type=int, default=15, help="every so manieth is in the trace; the counts are of all")
    add("--width", type=int, default=8, help="numbers per word and table")
    add("--pairs", type=int, default=8, help="pairs per worker and iteration")
    add("--negatives", type=int, default=3)
    add("--rate", type=float, default=0.2, help="step size")
    add("--seed", type=int, default=1)
    return parser.parse_args()


def train(args, corpus):
    """Trains; returns the losses, the trace's rows, and how often each row of the tables was updated."""
    rngs = [np.random.default_rng([args.seed, i]) for i in range(args.workers + 1)]
    model = Embeddings(corpus.size, args.width, rngs[-1])
    updates = np.zeros(2 * corpus.size, int)
    losses, rows, now = [], [], 0.0
    for iteration in range(args.iterations):
        sums, round_losses, ends = {}, [], []
        for worker in range(args.workers):
            batch = corpus.batch(rngs[worker], worker, args.workers, args.pairs, args.negatives)
            loss, touched, gradient = model.gradient(batch)
            round_losses.append(loss)
            updates[touched] += 1
            ends.append(now + ITERATION_S * rngs[-1].lognormal(0, VARIATION))
            if iteration % args.every == 0:
                rows.append((ends[-1], worker, iteration, model.keys(touched), half(gradient.reshape(-1))))
            for row, part in zip(touched, gradient):
                sums[row] = sums.get(row, 0) + part
        touched = np.array(sorted(sums))
        model.step(touched, np.array([sums[row] for row in touched]), args.rate)
        losses.append(np.mean(round_losses))
        now = max(ends)
    return np.array(losses), sorted(rows, key=lambda row: row[:2]), updates


def skew(updates, width):
    """Share of all updates that the hottest parameters have, beside Libra's Figure 5."""
    ordered = np.sort(updates)[::-1]
    shares = np.cumsum(ordered) / ordered.sum()
    touched = int((updates > 0).sum())
    # A row's numbers are updated together, so shares of rows are shares of parameters.
    return {
        "parameters": f"{len(updates) * width}, of which {touched * width} were updated",
        "share of updates by hottest parameters": ", ".join(
            f"{part:.2%} of them {shares[max(int(len(updates) * part), 1) - 1]:.1%}" for part in (0.0002, 0.001, 0.0033, 0.01, 0.1)
        ),
    }  # fmt: skip


def main():
    """Records, writes, and says what there is."""
    args = arguments()
    found, origin = verses()
    losses, rows, updates = train(args, Corpus(found))
    seen, seq = {}, []
    for _, worker, *_ in rows:
        seq.append(seen.get(worker, 0))
        seen[worker] = seq[-1] + 1
    columns = {
        "t_ps": [ps(row[0]) for row in rows],
        "cluster": [0] * len(rows),
        "worker": [row[1] for row in rows],
        "seq": seq,
        "bytes": [min(HEAD + PAIR * len(row[3]), FRAME_MAX) for row in rows],
        "keys": [row[3] for row in rows],
        "values": [row[4] for row in rows],
        "iteration": [row[2] for row in rows],
    }
    pairs = [len(row[3]) for row in rows]
    digest = hashlib.sha256(b"".join(row[4].tobytes() + row[3].astype("<u8").tobytes() for row in rows)).hexdigest()
    summary = {
        "mean loss by tenths": ", ".join(f"{part.mean():.3f}" for part in np.array_split(losses, 10)),
        "pairs per update 5/50/95 %": "/".join(f"{x:.0f}" for x in np.percentile(pairs, [5, 50, 95])),
        **skew(updates, args.width),
    }
    details = {f"argument {key}": value for key, value in vars(args).items() if key != "out"}
    details |= {"task": "word embeddings by negative sampling", **origin, **summary}
    write_trace(args.out, columns, details, "CC0-1.0")
    for name, value in {**origin, **summary}.items():
        print(f"{name}: {value}")
    print("sha256 of keys and values:", digest)


if __name__ == "__main__":
    main()
