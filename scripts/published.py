"""The lists of what the papers publish, and how a number of ours is judged by them: docs/published/README.md."""

import re
import tomllib
from decimal import Decimal

from reports import ROOT

# What scripts/evidence adds up from the answers of `pktgen verify --json`.
VERIFICATION = "verification_seconds"
# The lists, in the order in which docs/published/README.md names them.
SYSTEMS = re.findall(r"\]\((\w+)\.toml\)", (ROOT / "docs" / "published" / "README.md").read_text())
BOUNDS = ["over", "under", "at_least", "at_most"]
# Units as published, our units, and the factor from the former to the latter.
UNITS = {
    ("%", "share"): "0.01", ("%", "precision"): "0.01", ("%", "ratio"): "0.01", ("×", "ratio"): "1", ("index", "index"): "1",
    ("updates", "updates"): "1", ("updates", "packets"): "1", ("ms", "ns"): "1e6", ("µs", "ns"): "1e3", ("s", "ns"): "1e9", ("s", "s"): "1",
    ("Gbit/s", "Gbit/s"): "1", ("10^9/s", "elements/s"): "1e9", ("KB", "bytes"): "1024", ("cost", "s"): "1", ("orders of magnitude", "orders of magnitude"): "1",
    ("recirculations", "recirculations"): "1", ("recirculations", "pairs per packet"): "1",
}
# A value is near within this part of what is published; shares in the middle also within so many points.
NEAR, NEAR_POINTS, MIDDLE = 0.05, 2, (20, 80)
# Fewer seeds have no interval.
SEEDS = 5


def read(path):
    """TOML with numbers as they are written: 1.60 has two decimals."""
    return tomllib.loads(path.read_text(), parse_float=Decimal)


def lists():
    """Entries of each paper."""
    return {system: read(ROOT / "docs" / "published" / f"{system}.toml")["entry"] for system in SYSTEMS}


def listed(value):
    return value if isinstance(value, list) else [value]


def metrics():
    """Units of each metric of docs/schema.md, and of the time that a verification takes, all its questions together."""
    page = (ROOT / "docs" / "schema.md").read_text().split("## Metrics", 1)[1].split("\n## ", 1)[0]
    found = {}
    for name, unit in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE):
        found.setdefault(name, []).append(unit.strip())
    return {**found, VERIFICATION: ["s"]}


def readings(entry):
    """The entry's own reading of a published value and its variants': metric, relation, config, at, against of each."""
    own = {"name": None, "metric": entry.get("metric"), "relation": entry.get("relation", "value"), "config": entry.get("config"),
           "at": entry.get("at", {}), "against": entry.get("against", {}), "by": entry.get("by")}
    yield own
    for variant in entry.get("variants", []):
        merged = {key: {**own[key], **variant.get(key, {})} for key in ("at", "against")}
        reading = {**own, **variant, **merged}
        # What only quotients have is not taken over by what is none.
        yield reading if reading["relation"] in ("ratio", "cut") else {**reading, "against": variant.get("against", {}), "by": variant.get("by")}


def factor(unit, relation, ours):
    """From the published unit to that of the metric, or None."""
    if relation != "value":
        ours = ["ratio"]
    found = [UNITS[unit, own] for own in ours if (unit, own) in UNITS]
    return Decimal(found[0]) if found else None


# ---- what is published


def span(entry):
    """The least and the most that print stands for.

    >>> span({"value": Decimal("37"), "printed": [Decimal("36.5"), Decimal("37.5")]})
    (36.5, 37.5)
    >>> span({"over": 100})
    (100.0, inf)
    """
    if "printed" in entry:
        return tuple(map(float, entry["printed"]))
    endless = float("inf")
    for bound in BOUNDS:
        if bound in entry:
            limit = float(entry[bound])
            return (limit, endless) if bound in ("over", "at_least") else (-endless, limit)
    return float(entry.get("low", entry.get("value"))), float(entry.get("high", entry.get("value")))


# ---- ours


def fits(labels, at):
    """Is a point one of those that an entry is of? What it has no label of does not matter."""
    return all(str(labels[key]) in map(str, listed(wanted)) for key, wanted in at.items() if key in labels)


def quotient(over, under):
    """A quotient; without bound if it is by 0."""
    return over / under if under else float("inf")


def turned(ours, relation, scale):
    """A metric's median and interval as the published number is meant, in its unit.

    >>> turned({"median": 0.5, "lo": 0.25, "hi": 1.0, "n": 5}, "slowdown", 0.01)
    {'median': 100.0, 'lo': 0.0, 'hi': 300.0, 'n': 5}
    >>> turned({"median": 0.5, "lo": 0.0, "hi": 1.0, "n": 5}, "inverse", 1.0)
    {'median': 2.0, 'lo': 1.0, 'hi': inf, 'n': 5}
    """
    rule = {"value": lambda x: x, "ratio": lambda x: x, "gain": lambda x: x - 1, "inverse": lambda x: quotient(1, x), "slowdown": lambda x: quotient(1, x) - 1,
            "cut": lambda x: 1 - x}[relation]
    ends = [None if ours[key] is None else rule(ours[key]) / scale for key in ("median", "lo", "hi")]
    if ends[1] is not None and ends[1] > ends[2]:
        ends[1], ends[2] = ends[2], ends[1]
    return {"median": ends[0], "lo": ends[1], "hi": ends[2], "n": ours["n"]}


def divided(over, under):
    """One point by another; the interval is that of all pairs of their intervals' ends, wider than that of paired seeds.

    >>> divided({"median": 0.5, "lo": 0.25, "hi": 0.75, "n": 5}, {"median": 0.25, "lo": 0.0, "hi": 0.5, "n": 9})
    {'median': 2.0, 'lo': 0.5, 'hi': inf, 'n': 5}
    """
    known = None not in (over["lo"], under["lo"])
    return {"median": quotient(over["median"], under["median"]), "lo": quotient(over["lo"], under["hi"]) if known else None,
            "hi": quotient(over["hi"], under["lo"]) if known else None, "n": min(over["n"], under["n"])}


def values(reading, unit, points, units):
    """Ours for a reading of an entry, a value for each point that it is of; `points` are dicts with labels, metric, median, lo, hi, n."""
    scale = factor(unit, reading["relation"], units)
    if scale is None:
        return []
    own = [point for point in points if point["metric"] == reading["metric"]]
    above = [point for point in own if fits(point["labels"], reading["at"])]
    if reading["relation"] not in ("ratio", "cut"):
        return [(point["labels"], turned(point, reading["relation"], float(scale))) for point in above]
    below = [point for point in points if point["metric"] == (reading["by"] or reading["metric"]) and fits(point["labels"], {**reading["at"], **reading["against"]})]
    rest = lambda point: {key: value for key, value in point["labels"].items() if key not in reading["against"]}
    return [(under["labels"], turned(divided(over, under), reading["relation"], float(scale)))
            for over in above for under in below if rest(over) == rest(under) and over["config"] == under["config"] and under["median"]]


def distance(entry, ours):
    """How far the median is from what is printed, as a part of that; 0 inside."""
    low, high = span(entry)
    off = max(low - ours["median"], ours["median"] - high, 0.0)
    edge = low if ours["median"] < low else high
    return off / abs(edge) if off and edge else (float("inf") if off else 0.0)


def judge(entry, ours):
    """The verdict on one value of ours.

    >>> table = {"unit": "%", "value": 37, "printed": [36.5, 37.5]}
    >>> [judge(table, {"median": m, "lo": m - w, "hi": m + w, "n": 5}) for m, w in [(36, 1), (39.4, 0.1), (30, 1)]]
    ['agrees', 'near', 'differs']
    >>> judge(table, {"median": 37.0, "lo": None, "hi": None, "n": 1})
    'not compared'
    >>> judge({"unit": "ms", "over": 100}, {"median": 99.0, "lo": 98.0, "hi": 101.0, "n": 9})
    'near'
    """
    if ours["lo"] is None:
        return "not compared"
    low, high = span(entry)
    bound = any(key in entry for key in BOUNDS)
    ends = (ours["median"], ours["median"]) if bound else (ours["lo"], ours["hi"])
    if ends[0] <= high and ends[1] >= low:
        return "agrees"
    points = min(abs(ours["median"] - edge) for edge in (low, high))
    shown = float(entry.get("value", low))
    if distance(entry, ours) <= NEAR or entry.get("unit") == "%" and MIDDLE[0] <= shown <= MIDDLE[1] and points <= NEAR_POINTS:
        return "near"
    return "differs"


ORDER = ["agrees", "near", "impossible", "differs", "not compared"]


def verdict(entry, found):
    """The verdict on an entry, its distance, and the value that decides: the extreme of all points, or the worst of them.

    >>> entry = {"unit": "×", "value": 4.0, "printed": [3.95, 4.05], "extreme": "least"}
    >>> point = lambda m: ({"rate": m}, {"median": m, "lo": m, "hi": m, "n": 5})
    >>> verdict(entry, [point(9.0), point(4.0)])[0], verdict({**entry, "extreme": "most"}, [point(9.0), point(4.0)])[0]
    ('agrees', 'differs')
    >>> verdict({"unit": "×", "over": 80.0}, [point(92.7), point(89.3)])[2][1]["median"]
    89.3
    """
    if not found:
        return "not run", None, None
    if "extreme" in entry:
        pick = min if entry["extreme"] == "least" else max
        found = [pick(found, key=lambda point: point[1]["median"])]
    judged = [(ORDER.index(judge(entry, ours)), distance(entry, ours), labels, ours) for labels, ours in found]
    # Of points that all keep a bound, the one that is nearest to it.
    low, high = span(entry)
    worst, far, labels, ours = max(judged, key=lambda point: (*point[:2], -min(point[3]["median"] - low, high - point[3]["median"])))
    name = ORDER[worst]
    if name == "differs" and "impossible" in entry:
        name = "impossible"
    return name, far, (labels, ours)
