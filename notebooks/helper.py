"""What the notebooks share: the repository, the binary, runs in a folder that goes away, reports as tables.

The binary is $PKTGEN, or target/release/pktgen.
"""

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("PKTGEN", str(ROOT / "target" / "release" / "pktgen"))
_runs = Path(tempfile.mkdtemp(prefix="pktgen-notebook-"))
atexit.register(shutil.rmtree, _runs, ignore_errors=True)


def pktgen(*arguments):
    """What a command prints on stdout; its error is raised."""
    done = subprocess.run([BINARY, "-q", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"pktgen {' '.join(map(str, arguments))}: {done.stderr or done.stdout}")
    return done.stdout


def replay(config, *changed):
    """Runs configs/CONFIG with some keys set; the folder of its run dirs and report."""
    out = _runs / f"{len(list(_runs.iterdir()))}-{Path(config).stem}"
    pktgen("replay", ROOT / "configs" / config, "--out", out, *(word for key in changed for word in ("--set", key)))
    return out


NAN = float("nan")


def report(folder):
    """A report as one row per point and metric: labels, metric, median, lo, hi (NaN with fewer than 5 seeds), paper, sign (of a bound)."""
    model = json.loads((folder / "report.json").read_text())
    assert model["verdict"]["valid"], model["invalid"]
    rows = []
    for row in model["rows"]:
        for column, cell in zip(model["columns"], row["cells"]):
            ours, paper = cell["ours"] or {}, cell["paper"] or {}
            rows.append({
                **row["labels"], "metric": column["key"], "median": ours.get("median"), "lo": ours.get("lo", NAN),
                "hi": ours.get("hi", NAN), "paper": paper.get("value"), "sign": paper.get("sign"), "source": paper.get("source"),
            })
    return pl.DataFrame(rows, infer_schema_length=None)


def metrics(run):
    """What `pktgen analyze --json` says of a run dir, one row per metric and labels."""
    lines = [json.loads(line) for line in pktgen("analyze", run, "--json").splitlines()]
    rows = [{"metric": line["metric"], "value": float(line["value"]), "unit": line["unit"],
             **{key: str(value) for key, value in line["labels"].items()}} for line in lines if line["value"] is not None]
    return pl.DataFrame(rows, infer_schema_length=None)
