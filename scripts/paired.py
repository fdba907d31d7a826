"""Two builds timed in turns: which of them is slower, and by how much."""

import random
import statistics

# What two builds of one commit differ by on a quiet host.
MARGIN = 0.02
SMALLEST_ROUNDS = 5


def interval(ratios):
    """95 % of the medians of samples drawn again."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(4000))
    return medians[99], medians[3899]


def judged(before, after, margin=MARGIN):
    """The ratio of times of paired rounds, its interval, and whether all of the interval is above 1 + margin."""
    ratios = [new / old for old, new in zip(before, after, strict=True)]
    low, high = interval(ratios)
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "rounds": len(ratios), "slower": low > 1 + margin}
