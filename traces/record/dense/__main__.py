"""Records gradients of a small dense network for studies of precision: traces/record/python -m dense --help

The network predicts the next letter of a text from the ones before it; workers train synchronously.
"""

import argparse

import numpy as np

from common import FRAME_MAX, HEAD, UPDATE_HEAD, frame_bytes, ps, write_trace
from net import Net, log_softmax
from text import verses

LETTERS = 27
# Seconds: what an iteration takes, and how much that varies.
ITERATION_S, VARIATION = 4e-3, 0.2
# Numbers in the largest frame: longer gradients are cut into several.
ELEMENTS = (FRAME_MAX - HEAD - UPDATE_HEAD) // 4


def arguments():
    """The recorded set is what the defaults make."""
    parser = argparse.ArgumentParser(prog="python -m dense", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("out", help="trace to write (.parquet)")
    add("--workers", type=int, default=8)
    add("--iterations", type=int, default=2000)
    add("--keep", default="0,10,100,1000,1999", help="iterations that are in the trace")
    add("--context", type=int, default=8, help="letters that the network sees")
    add("--hidden", type=int, default=24)
    add("--batch", type=int, default=64, help="letters per worker and iteration")
    add("--rate", type=float, default=0.5, help="step size; it falls to a tenth")
    add("--seed", type=int, default=1)
    return parser.parse_args()


def letters(found):
    """The text as numbers: 0 is the gap between words and verses."""
    return np.array([0 if c == " " else ord(c) - ord("a") + 1 for c in " ".join(found)], np.int8)


def gradient(net, weights, inputs, wanted):
    """Mean cross-entropy of the predictions, in nats per letter, and its gradient."""
    layers = net.layers(weights)
    logits, between = net.forward(layers, inputs)
    logs = log_softmax(logits)
    rows = np.arange(len(wanted))
    d_logits = np.exp(logs)
    d_logits[rows, wanted] -= 1
    return -logs[rows, wanted].mean(), net.backward(layers, between, d_logits / len(wanted))


def train(args, text):
    """Trains; returns the losses and the kept (time, worker, iteration, gradient)."""
    rngs = [np.random.default_rng([args.seed, i]) for i in range(args.workers + 1)]
    net = Net((LETTERS * args.context, args.hidden, LETTERS))
    weights, kept, losses, rows, now = net.initial(rngs[-1]), set(map(int, args.keep.split(","))), [], [], 0.0
    share = (len(text) - args.context) // args.workers
    for iteration in range(args.iterations):
        total, loss, ends = np.zeros(net.size), 0.0, []
        for worker in range(args.workers):
            # Each worker has a part of the text of its own.
            at = worker * share + rngs[worker].integers(share, size=args.batch)
            seen = text[at[:, None] + np.arange(args.context)]
            inputs = (seen[:, :, None] == np.arange(LETTERS)).reshape(args.batch, -1).astype(float)
            part, grad = gradient(net, weights, inputs, text[at + args.context])
            total, loss = total + grad / args.workers, loss + part / args.workers
            ends.append(now + ITERATION_S * rngs[-1].lognormal(0, VARIATION))
            if iteration in kept:
                rows.append((ends[-1], worker, iteration, np.float32(grad)))
        weights = weights - args.rate * 0.1 ** (iteration / args.iterations) * total
        losses.append(loss)
        now = max(ends)
    return np.array(losses), sorted(rows, key=lambda row: row[:2])


def shape(values):
    """What studies of precision ask of a distribution: range of magnitudes, tails, zeros."""
    magnitudes = np.log2(np.abs(values[values != 0]))
    centred = values - values.mean()
    return (
        f"log2 of magnitudes 1/50/99 % {'/'.join(f'{x:.1f}' for x in np.percentile(magnitudes, [1, 50, 99]))}, "
        f"kurtosis {(centred**4).mean() / (centred**2).mean() ** 2:.0f}, zeros {(values == 0).mean():.2%}, "
        f"largest {np.abs(values).max():.3g}"
    )


def columns(rows):
    """A row of the trace per frame: the parts of a gradient follow each other, in the order of the parameters."""
    found = {name: [] for name in ("t_ps", "cluster", "worker", "seq", "bytes", "values", "iteration")}
    seen = {}
    for seconds, worker, iteration, values in rows:
        for part in (values[i : i + ELEMENTS] for i in range(0, len(values), ELEMENTS)):
            seq = seen[worker] = seen.get(worker, -1) + 1
            cells = (ps(seconds), 0, worker, seq, frame_bytes(len(part)), part, iteration)
            for name, cell in zip(found, cells):
                found[name].append(cell)
    return found


def main():
    """Records, writes, and says what there is."""
    args = arguments()
    found, origin = verses()
    losses, rows = train(args, letters(found))
    summary = {
        "parameters": len(rows[0][3]),
        "mean loss by tenths": ", ".join(f"{part.mean():.3f}" for part in np.array_split(losses, 10)),
    }
    for iteration in sorted({row[2] for row in rows}):
        summary[f"values at {iteration:4}"] = shape(np.concatenate([row[3] for row in rows if row[2] == iteration]))
    details = {f"argument {key}": value for key, value in vars(args).items() if key != "out"}
    details |= {"task": "next letter by a network with one hidden layer, not rounded", **origin, **summary}
    digest = write_trace(args.out, columns(rows), details, "CC0-1.0")
    for name, value in {**origin, **summary}.items():
        print(f"{name}: {value}")
    print("sha256 of the file:", digest)


if __name__ == "__main__":
    main()
