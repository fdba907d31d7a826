"""Captures: metrics of packets that any tool recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from . import _html as html
from . import _tool as tool
from ._errors import UsageError
from ._tool import Note


@dataclass(frozen=True)
class Analysis:
    """Metrics of captures or run dirs, and what the tool notes on them. Not `valid`: the notes say why."""

    title: str
    metrics: pl.DataFrame
    notes: list[Note]
    valid: bool

    def value(self, metric: str, **labels: object) -> float | None:
        """The one value of a metric with these labels, and no others; None where it has no value.

        A label of None is one that the line lacks. Numbers may be texts: id="1" is id=1.
        """
        labels = {name: value for name, value in labels.items() if value is not None}
        rows = self.metrics.filter(pl.col("metric") == metric)
        names = [column for column in rows.columns if column not in ("metric", "unit", "value")]
        there = rows.select(names)
        for column in names:
            held = pl.Series([_is_label(value, labels.get(column)) for value in rows[column]], dtype=pl.Boolean)
            rows = rows.filter(held)
        if rows.height != 1 or set(labels) - set(names):
            known = [{name: value for name, value in row.items() if value is not None} for row in there.head(5).iter_rows(named=True)]
            what = f"there are, with these labels: {known}" if known else "there is no such metric here (`metrics` has those that there are)"
            raise UsageError(f"{metric} with labels {labels}: {rows.height if not set(labels) - set(names) else 0} values; {what}", 2)
        found: float | None = rows["value"].item()
        return found

    def __repr__(self) -> str:
        state = "valid" if self.valid else "INVALID"
        return f"<pktgen.Analysis {self.title}: {self.metrics.height} values, {state}>\n" + "\n".join(html.some(self._texts()))

    def _repr_html_(self) -> str:
        verified = all(note.code not in tool.CAUTION for note in self.notes)
        return html.box(self.title, self.valid, self._texts(), verified) + self.metrics._repr_html_()

    def _texts(self) -> list[str]:
        return [note.text for note in self.notes]


def _is_label(value: object, wanted: object) -> bool:
    """A label is wanted as a number or as its text; None is wanted of lines without it."""
    if value is None or wanted is None:
        return value is wanted
    return str(value) == str(wanted) or bool(value == wanted)


def analyze(
    *paths: str | os.PathLike[str],
    sent: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    metrics: str | tuple[str, ...] | list[str] = (),
    format: str | None = None,
    anchor: str | os.PathLike[str] | int | None = None,
    offset: str | None = None,
    forwards: bool = False,
    verify: bool = True,
) -> Analysis:
    """Metrics of captures at the server (pcap, pcapng), with those of the senders (`sent`) if there are any; also of run dirs.

    `sent` is one file or several; `metrics` are names or patterns; `format`, `anchor`, `offset` and `forwards` are flags of `pktgen analyze` (docs/analyze.md).
    """
    patterns = (metrics,) if isinstance(metrics, str) else metrics
    flags: list[object] = []
    for file in [sent] if isinstance(sent, str | os.PathLike) else sent or ():
        flags += ["--sent", tool.path(file)]
    for flag, value in [("--format", format), ("--anchor", anchor), ("--offset", offset)]:
        flags += [flag, value] if value is not None else []
    flags += ["--forwards"] if forwards else []
    flags += [] if verify else ["--no-verify"]
    table, answer = tool.metrics(map(tool.path, paths), patterns, flags)
    return Analysis(", ".join(Path(path).name for path in paths), table.select(tool.used(table)), answer.notes(), answer.code == 0)
