"""Two builds timed in turns: which of them is slower, and by how much."""

import math

# What two builds of one commit differ by on a quiet host.
MARGIN = 0.02
# How sure an interval is. Of equal sides at most one in two hundred is called slower, however large the noise beside the margin is.
CONFIDENCE = 0.99
# With fewer no such interval exists.
SMALLEST_ROUNDS = 8


def tail(rounds):
    """How many of the smallest means of pairs lie outside of an interval of that confidence: Wilcoxon's signed ranks, exactly."""
    ways = [1]
    for rank in range(1, rounds + 1):
        ways = [(ways[i] if i < len(ways) else 0) + (ways[i - rank] if i >= rank else 0) for i in range(len(ways) + rank)]
    allowed, below, outside = (1 - CONFIDENCE) / 2 * 2**rounds, 0, 0
    while below + ways[outside] <= allowed:
        below, outside = below + ways[outside], outside + 1
    return outside


def interval(ratios):
    """The ratio that lies in the middle of all means of two (Hodges and Lehmann), and its interval. The sides change places by chance only where
    they are equal, so the logarithms of their ratios are symmetric about 0, whatever the noise."""
    logs = [math.log(ratio) for ratio in ratios]
    means = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    count, outside = len(means), tail(len(logs))
    if outside == 0:
        raise ValueError(f"{len(ratios)} rounds: an interval needs at least {SMALLEST_ROUNDS}")
    middle = (means[(count - 1) // 2] + means[count // 2]) / 2
    return math.exp(middle), math.exp(means[outside - 1]), math.exp(means[count - outside])


def judged(before, after, margin=MARGIN):
    """The ratio of times of paired rounds, its interval, and whether all of the interval is above 1 + margin."""
    ratio, low, high = interval([new / old for old, new in zip(before, after, strict=True)])
    return {"ratio": ratio, "low": low, "high": high, "rounds": len(before), "slower": low > 1 + margin}
