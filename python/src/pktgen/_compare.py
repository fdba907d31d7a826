"""Two implementations or versions against each other, by the tool's verdict."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from . import _html as html
from . import _keys as keys
from . import _tool as tool
from ._errors import PktgenError, UsageError
from ._seal import without_digests

if TYPE_CHECKING:
    from ._sweep import Sweep


class Comparison:
    """What `pktgen report NEW --baseline OLD` says (docs/compare.md)."""

    def __init__(self, said: dict[str, Any], verified: bool = True, axes: Mapping[str, list[str]] | None = None) -> None:
        self.said = said
        self._verified = verified
        # All values of the new sweep's axes, of which points may have some: they have one type.
        self._axes = axes or {}
        self.title = str(said["title"])
        #: "better", "worse", "same" or "cannot_tell", of the valid runs: see `valid`.
        self.outcome = str(said["outcome"])
        self.valid = bool(said["valid"])
        self.lines: list[str] = said["lines"]
        self.notes: list[str] = said["notes"]
        #: What differs between the configurations, as far as that is known.
        self.differences: list[str] = [line for versus in said["versus"] for line in versus["differences"] or []]

    def judgements(self) -> pl.DataFrame:
        """A row per metric and point: labels, typed as those of `Sweep.metrics`, outcome, medians, effect (`kind`: ratio − 1 or difference) with its interval, and why."""
        judged = [judgement for versus in self.said["versus"] for judgement in versus["judgements"]]
        typed = _typed([judgement["labels"] for judgement in judged], self._axes)
        rows = [
            {
                **{axis: typed[axis][text] for axis, text in judgement["labels"].items()},
                "metric": judgement["metric"],
                "unit": judgement["unit"],
                "outcome": judgement["outcome"],
                "required": judgement["required"],
                "pairs": judgement["pairs"],
                "old": (judgement["old"] or {}).get("median"),
                "new": (judgement["new"] or {}).get("median"),
                **_effect(judgement),
                "why": judgement["why"],
            }
            for judgement in judged
        ]
        floats = dict.fromkeys(("old", "new", "effect", "lo", "hi"), pl.Float64)
        if not rows:
            axes = {axis: pl.Series(keys.typed(axis, list(values))).dtype for axis, values in self._axes.items()}
            texts = dict.fromkeys(("metric", "unit", "outcome"), pl.String)
            counts = {"required": pl.Boolean, "pairs": pl.Int64}
            return pl.DataFrame(schema={**axes, **texts, **counts, **floats, "kind": pl.String, "why": pl.String})
        # Columns without a value have the type of those with values.
        return pl.DataFrame(rows, schema_overrides={**floats, "kind": pl.String, "why": pl.String}, infer_schema_length=None)

    def __repr__(self) -> str:
        verdict = self.outcome if self.valid else "invalid"
        return f"<pktgen.Comparison {self.title}: {verdict}>\n" + "\n".join(html.some(self.lines))

    def _repr_html_(self) -> str:
        verdict = self.outcome.replace("_", " ") if self.valid else "invalid"
        return html.box(f"{self.title}: {verdict}", self.valid, self.lines + self.notes, self._verified)


def compare(
    new: Sweep | str | os.PathLike[str],
    old: Sweep | str | os.PathLike[str],
    rules: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Whether `new` is better than `old`: sweeps, or their folders. `out` also keeps the comparison as .html, .md, .json or .xml.

    If one of them was opened with `verify=False`, the files of neither are compared with their digests.
    """
    flags: list[object] = ["--rules", tool.path(rules)] if rules is not None else []
    out = tool.path(out) if out is not None else None
    # The tool has one flag for both sides.
    verify = all(getattr(side, "_verify", True) for side in (new, old))
    flags += [] if verify else ["--no-verify"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "compare.json"
        flags += ["--out", out] if out is not None else []
        answer = tool.call("report", _path(new), "--baseline", _path(old), "--out", file, *flags, allow=(0, 1))
        said = tool.written(file, answer)
    without = {side: without_digests(_runs(side)) for side in (_path(new), _path(old))} if verify else {}
    unverified = [f"{side.name}: {found}" for side, found in without.items() if found]
    comparison = Comparison(said, verify and not unverified, _planned(_path(new)))
    # What could not be written has the exit code of a verdict of "worse".
    failed = [line for line in answer.said("pktgen: ") if out is not None and out in line]
    if failed:
        raise PktgenError("\n".join(failed))
    if not comparison.valid:
        tool.warn("\n".join(comparison.lines), invalid=True)
    for text in unverified:
        tool.warn(text)
    if not verify:
        tool.warn(f"{comparison.title}: files of both sides were not compared with their digests (verify=False)")
    return comparison


def _path(place: Sweep | str | os.PathLike[str]) -> Path:
    if isinstance(place, (str, os.PathLike)):
        return Path(tool.path(place))
    path = getattr(place, "path", None)
    if not isinstance(path, Path):
        raise UsageError(f"{place!r} cannot be compared; give a sweep, or the folder of one", 2)
    return path


def _plan(sweep: Path) -> dict[str, Any]:
    """The plan of a sweep; empty without one."""
    plan = sweep / "sweep.json"
    found: dict[str, Any] = json.loads(plan.read_text(encoding="utf-8")) if plan.is_file() else {}
    return found


def _planned(sweep: Path) -> dict[str, list[str]]:
    """The axes of a sweep with all their values, as texts; none of a run dir."""
    return {axis: list(values) for axis, values in _plan(sweep).get("axes", [])}


def _runs(sweep: Path) -> list[Path]:
    """The runs of a sweep that began, those in a folder without a plan, or a run dir itself."""
    manifests = [sweep / row["dir"] / "manifest.json" for row in _plan(sweep).get("runs", [])]
    found = manifests or [sweep / "manifest.json", *sweep.glob("*/manifest.json")]
    return [manifest.parent for manifest in found if manifest.is_file()]


def _typed(points: list[dict[str, str]], axes: Mapping[str, list[str]]) -> dict[str, dict[str, keys.Label]]:
    """For each axis of points its values, with the type that all of them have, those of the plan as well."""
    texts: dict[str, dict[str, Any]] = {}
    for labels in points:
        for axis, text in labels.items():
            texts.setdefault(axis, dict.fromkeys(axes.get(axis, [])))[text] = None
    return {axis: dict(zip(values, keys.typed(axis, list(values)))) for axis, values in texts.items()}


def _effect(judgement: dict[str, Any]) -> dict[str, Any]:
    effect = judgement["effect"] or {}
    return {"effect": effect.get("value"), "lo": effect.get("lo"), "hi": effect.get("hi"), "kind": judgement["kind"]}
