"""The judge of two builds (scripts/paired.py) against enumeration, and on equal sides."""

import importlib.util
import itertools
import math
import random
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def paired() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paired", ROOT / "scripts" / "paired.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tail_is_that_of_all_signs(paired: ModuleType) -> None:
    for rounds in range(1, 13):
        sums = [sum(rank for rank, sign in enumerate(signs, 1) if sign) for signs in itertools.product((0, 1), repeat=rounds)]
        shares = [sum(one <= most for one in sums) / len(sums) for most in range(max(sums) + 1)]
        assert paired.tail(rounds) == sum(share <= (1 - paired.CONFIDENCE) / 2 for share in shares)
    assert (paired.tail(paired.SMALLEST_ROUNDS - 1), paired.tail(paired.SMALLEST_ROUNDS)) == (0, 1)
    with pytest.raises(ValueError, match="7 rounds"):
        paired.interval([1.0] * 7)


def test_the_interval_is_that_of_counting_means(paired: ModuleType) -> None:
    draw = random.Random(5)
    for rounds in (8, 9, 10, 13):
        ratios = [math.exp(draw.gauss(0.0, 0.1)) for _ in range(rounds)]
        ratio, low, high = paired.interval(ratios)
        # A ratio is inside if the ranks of what lies above it do not sum up to too little or too much.
        for assumed in [low * 0.999, low * 1.001, ratio, high * 0.999, high * 1.001]:
            logs = sorted((math.log(one / assumed) for one in ratios), key=abs)
            above = sum(rank for rank, one in enumerate(logs, 1) if one > 0)
            inside = paired.tail(rounds) <= above <= rounds * (rounds + 1) // 2 - paired.tail(rounds)
            assert inside == (low < assumed < high), (rounds, assumed)


def test_equal_sides_differ_by_their_margin_hardly_ever_and_a_tenth_is_found(paired: ModuleType) -> None:
    draw = random.Random(11)

    def slower(planted: float) -> int:
        times = [[math.exp(draw.gauss(0.0, 0.03)) for _ in range(10)] for _ in range(400)]
        return sum(paired.judged(before, [planted * time for time in after])["slower"] for before, after in itertools.pairwise(times))

    assert slower(1.0) <= 1
    assert slower(1.1) >= 370
