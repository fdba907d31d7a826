"""Run dirs and sweeps: their files as LazyFrames, their metrics and report as DataFrames, their verdict."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from . import _html as html
from . import _keys as keys
from . import _tool as tool
from ._compare import Comparison, compare
from ._errors import InvalidRunError, PktgenError, UsageError
from ._keys import Label
from ._progress import Progress
from ._seal import SEAL, without_digests
from ._tool import Note

# A larger sweep is shown without its verdict until something has asked for it: the tool reads all runs for that.
SHOWN_JUDGED = 200
# Types of columns with labels.
KINDS: dict[type, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String}
# Types of columns as the tool names them.
TYPES: dict[str, Any] = {
    "bool": pl.Boolean, "uint8": pl.UInt8, "uint16": pl.UInt16, "uint32": pl.UInt32, "uint64": pl.UInt64, "int64": pl.Int64, "float32": pl.Float32,
}


@dataclass(frozen=True)
class Verdict:
    """What the tool says of a sweep. `worse`: a variant is worse than the baseline."""

    valid: bool
    worse: bool
    lines: list[str]
    warnings: list[str]


class Run:
    """A run dir. Labels are the values of the sweep's axes, `variant` among them."""

    def __init__(self, path: Path, labels: Mapping[str, Label], seed: int, verify: bool = True) -> None:
        self.path = path
        self.labels = dict(labels)
        self.seed = seed
        self._verify = verify
        self._manifest: dict[str, Any] | None = None
        self._seen = False

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.path.resolve().name

    @property
    def variant(self) -> str | None:
        """The variant, if the sweep has variants."""
        return str(self.labels["variant"]) if "variant" in self.labels else None

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json: configuration, balance, validity, files (docs/records.md)."""
        # That of a run in progress changes, as does that of a killed one when it is recovered.
        if self._manifest is None or self._manifest.get("state") == "running":
            text = _read(self.path / "manifest.json")
            self._check(text)
            found = _parsed(self.path / "manifest.json", text)
            keys.check_version(self.path / "manifest.json", "manifest", found.get("version"))
            self._manifest = found
        return self._manifest

    @property
    def valid(self) -> bool:
        """The verdict of the run when it ended."""
        return bool(self.manifest["validity"]["valid"])

    @property
    def faults(self) -> list[Note]:
        """Why it is invalid."""
        return self._said("faults")

    @property
    def notes(self) -> list[Note]:
        """What a reader of a valid run must know."""
        return self._said("notes")

    @property
    def config(self) -> str:
        """The resolved configuration, as TOML."""
        return str(self.manifest["config"])

    def _began(self) -> bool:
        # Once is enough: sweeps ask it of all their runs at each use.
        self._seen = self._seen or (self.path / "manifest.json").is_file()
        return self._seen

    def _said(self, which: str) -> list[Note]:
        rows = self.manifest["validity"].get(which)
        if rows is None:
            # Version 1 has texts only, which the tool reads; a note of its own has no text there.
            flags = () if self._verify else ("--no-verify",)
            dump = tool.call("dump", "--canonical", self.path, *flags, allow=(0, 1)).out.decode().splitlines()
            found = [line.split("\t", 2)[1:] for line in dump if line.startswith(f"{which[:-1]}\t")]
            rows = [{"code": code, "text": json.loads(fields)["said"]} for code, fields in found if "said" in json.loads(fields)]
        return [Note(row["code"], self.name, row["text"]) for row in rows]

    def stream(self, name: str) -> pl.LazyFrame:
        """A stream of the run by the name of its file. Its digest is verified first; an invalid run causes a warning.

        The tool reads a stream of an older version, so that columns have today's names and meaning.
        """
        if self.manifest.get("state") == "running":
            way = f"if it was killed, pktgen analyze --recover {self.path} keeps what it recorded"
            raise UsageError(f"{self.name} has no stream {name} yet: it is in progress, or was killed; {way}", 2)
        # Older manifests do not list the files.
        files = self.manifest.get("files") or {path.name: None for path in self.path.glob("*.parquet")}
        wanted = f"{name}.parquet"
        if wanted not in files:
            there = ", ".join(file.removesuffix(".parquet") for file in sorted(files) if file.endswith(".parquet"))
            raise UsageError(f"{self.name} has no stream {name}; there are: {there or 'none'} (docs/records.md says what records them)", 2)
        try:
            str(self.path).encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"{_printed(self.path)}: polars reads no file whose path is not UTF-8; rename the folder", 2) from error
        if files[wanted]:
            self._verify_file(wanted, files[wanted]["sha256"])
        # Other programs that rewrite a table may omit its version.
        version = pl.read_parquet_metadata(self.path / wanted).get("pktgen.version", "")
        keys.check_version(self.path / wanted, name, int(version) if version.isdecimal() else None)
        frame = pl.scan_parquet(self.path / wanted, glob=False)
        columns = keys.columns(tool.binary()).get(name, {})
        if not set(columns) <= set(frame.collect_schema().names()):
            return self._converted(name, columns)
        if not self.valid:
            tool.warn(f"{self.name} is invalid: {'; '.join(fault.text for fault in self.faults)}", invalid=True)
        return frame

    def _converted(self, name: str, columns: dict[str, str]) -> pl.LazyFrame:
        """A stream of an older version, as SQL has it; codes are numbers, as in files."""
        try:
            rows = self.query(f"SELECT * FROM {name}")
        except UsageError as error:
            raise UsageError(f"{self.path / name}.parquet is of an older version, and pktgen query cannot read it: {error}", 2) from error
        codes = {column: f"{column}_code" if f"{column}_code" in rows.columns else column for column in columns}
        return rows.lazy().select(pl.col(codes[column]).cast(TYPES[kind]).alias(column) for column, kind in columns.items())

    def _verify_file(self, name: str, digest: str) -> None:
        with _opened(self.path / name) as file:
            if self._verify and hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise PktgenError(_changed(self.path / name))

    def _check(self, text: bytes) -> None:
        """A manifest ends with a digest of what stands before it, and has those of the other files (docs/records.md)."""
        if not self._verify:
            return tool.warn(f"{self.name}: its files are not compared with their digests (verify=False)")
        if not _sealed(self.path / "manifest.json", text):
            return tool.warn(f"{self.name}: the manifest has no digests: an older version wrote it, or the run was killed")

    @property
    def sent(self) -> pl.LazyFrame:
        """A row per update that a worker sent."""
        return self.stream("sent")

    @property
    def books(self) -> pl.LazyFrame:
        """A row per action of a device."""
        return self.stream("books")

    @property
    def received(self) -> pl.LazyFrame:
        """A row per packet with updates that arrived."""
        return self.stream("received")

    @property
    def results(self) -> pl.LazyFrame:
        """A row per result that arrived at a worker (synchronous training)."""
        return self.stream("results")

    @property
    def iterations(self) -> pl.LazyFrame:
        """A row per iteration of a worker (synchronous training)."""
        return self.stream("iterations")

    def metrics(self, *patterns: str) -> pl.DataFrame:
        """The metrics of the run, as `Sweep.metrics`."""
        return _metrics(self.path, [self], patterns, self._verify)

    def query(self, sql: str) -> pl.DataFrame:
        """The answer to one SELECT (docs/query.md)."""
        return query(self.path, sql, verify=self._verify)

    def __repr__(self) -> str:
        return f"<pktgen.Run {self.name}: {'valid' if self.valid else 'INVALID'}>"

    def _repr_html_(self) -> str:
        said = [note.text for note in self.faults + self.notes]
        return html.box(self.name, self.valid, said, self._verify and without_digests([self.path]) is None)


class Sweep:
    """The runs of an experiment that began. Iterating gives each `Run`."""

    def __init__(self, path: str | os.PathLike[str], verify: bool = True, report: dict[str, Any] | None = None) -> None:
        self.path = Path(tool.path(path))
        self._verify = verify
        plan = self._plan()
        self.name = str(plan["experiment"])
        #: The axes with their values, in the order of the experiment.
        self.axes: dict[str, list[Label]] = {axis: keys.typed(axis, values) for axis, values in plan["axes"]}
        self._words = {axis: dict(zip(values, self.axes[axis])) for axis, values in plan["axes"]}
        if "own" in plan:
            self.axes = {axis: [label] for axis, label in self._labels(plan["own"]).items()}
        self._planned = [self._run(row) for row in plan["runs"]]
        # By axes: the planned runs by their values.
        self._indexes: dict[tuple[str, ...], dict[tuple[Any, ...], list[Run]]] = {}
        if report is not None:
            self._report = report

    @property
    def runs(self) -> list[Run]:
        """The runs that began, in the order of the plan. Runs of a sweep in progress are added when they begin."""
        return [run for run in self._planned if run._began()]

    @property
    def missing(self) -> list[str]:
        """Names of planned runs without a manifest: the sweep was interrupted, or is in progress, or their files are gone."""
        return [run.name for run in self._planned if not run._began()]

    def _plan(self) -> dict[str, Any]:
        if (self.path / "sweep.json").is_file():
            text = _read(self.path / "sweep.json")
            found = _parsed(self.path / "sweep.json", text)
            keys.check_version(self.path / "sweep.json", "sweep", found.get("version"))
            # Older versions wrote no digests, nor does a sweep list manifests before it ends.
            ended = any("manifest" in run for run in found["runs"])
            if self._verify and not _sealed(self.path / "sweep.json", text) and ended:
                raise PktgenError(_changed(self.path / "sweep.json"))
            return found
        if not (self.path / "manifest.json").is_file():
            raise UsageError(f"{self.path}: neither a sweep (sweep.json) nor a run dir (manifest.json)", 2)
        run = _parsed(self.path / "manifest.json", _read(self.path / "manifest.json"))
        keys.check_version(self.path / "manifest.json", "manifest", run.get("version"))
        own = run["labels"]
        row = {"dir": ".", "labels": own, "seed": run["seed"]}
        return {"experiment": run["experiment"], "axes": _axes_above(self.path, own), "runs": [row], "own": own}

    def _run(self, row: dict[str, Any]) -> Run:
        return Run(self.path / row["dir"], self._labels(row["labels"]), int(row["seed"]), self._verify)

    def _labels(self, texts: dict[str, str]) -> dict[str, Label]:
        """Labels of a run or a point with their types, in the order of the axes."""
        return {axis: words.get(texts[axis], texts[axis]) for axis, words in self._words.items() if axis in texts}

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def select(self, **labels: Label) -> list[Run]:
        """Runs with these labels: `variant`, `seed`, an axis with `__` for dots, or the last part of its name."""
        wanted = {self._axis(word): value for word, value in labels.items()}
        index = self._indexed(tuple(wanted))
        # What cannot be hashed is no label.
        with suppress(TypeError):
            return [run for run in index.get(tuple(wanted.values()), []) if run._began()]
        return []

    def _indexed(self, axes: tuple[str, ...]) -> dict[tuple[Any, ...], list[Run]]:
        """The planned runs by their values on these axes."""
        if axes not in self._indexes:
            index: dict[tuple[Any, ...], list[Run]] = {}
            for run in self._planned:
                own = {**run.labels, "seed": run.seed}
                index.setdefault(tuple(own.get(axis) for axis in axes), []).append(run)
            self._indexes[axes] = index
        return self._indexes[axes]

    def run(self, **labels: Label) -> Run:
        """The one run with these labels; an error if several or none have them."""
        found = self.select(**labels)
        if len(found) != 1:
            some = "; ".join(run.name for run in (found or self.runs)[:4])
            never = f" ({len(self.missing)} planned runs are missing)" if self.missing else ""
            raise UsageError(f"{len(found)} runs of {self.name} have {labels}{never}; name one: {some}, …", 2)
        return found[0]

    def _axis(self, word: str) -> str:
        name = word.replace("__", ".")
        known = [*self.axes, "seed"]
        found = [axis for axis in known if axis == name] or [axis for axis in known if axis.rsplit(".", 1)[-1] == name]
        if len(found) != 1:
            raise UsageError(f"{self.name} has no axis {word}; there are: {', '.join(known)}", 2)
        return found[0]

    @cached_property
    def _report(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            flags, file = () if self._verify else ("--no-verify",), Path(folder) / "report.json"
            answer = tool.call("report", self.path, "--out", file, *flags, allow=(0, 1))
            found = tool.written(file, answer)
        if self._unverified:
            tool.warn(self._unverified)
        return found

    @cached_property
    def _unverified(self) -> str | None:
        """Why files were not compared with digests; `None` if all were."""
        if not self._verify:
            return f"{self.name}: its files were not compared with their digests (verify=False)"
        found = without_digests(run.path for run in self.runs)
        return found and f"{self.name}: {found}"

    @property
    def verdict(self) -> Verdict:
        """What the tool says of all runs."""
        said = self._report["verdict"]
        unverified = [self._unverified] if self._unverified else []
        lines = [*said["lines"], *map(_invalid, self._report["invalid"])]
        return Verdict(said["valid"], said["worse"], lines, [*unverified, *self._report["warnings"]])

    @property
    def valid(self) -> bool:
        """All runs are valid and can be read."""
        return self.verdict.valid

    @property
    def notes(self) -> list[Note]:
        """Faults and notes of all runs that began; `missing` has the others."""
        return [note for run in self.runs for note in run.faults + run.notes]

    def metrics(self, *patterns: str) -> pl.DataFrame:
        """The metrics of all runs, or those that match a pattern ("loss", "aom_*").

        Columns: every axis (`variant` among them) and `seed`, typed; `metric`, `unit`, `value`; then labels of the
        metric that its lines have (`flow`, `id`, `n`, `reason`, …). In lines of `pktgen analyze`, in the sweep's order.
        """
        return _metrics(self.path, self._planned, patterns, self._verify)

    def report(self) -> pl.DataFrame:
        """The table of the report: a row per point and metric with median, interval (`lo`, `hi`), published value and source."""
        rows = [
            {
                **self._labels(row["labels"]),
                "metric": column["key"],
                "unit": column["unit"],
                "seeds": (cell["ours"] or {}).get("n"),
                **{name: (cell["ours"] or {}).get(name) for name in ("median", "lo", "hi")},
                "paper": (cell["paper"] or {}).get("value"),
                "sign": (cell["paper"] or {}).get("sign"),
                "source": (cell["paper"] or {}).get("source"),
            }
            for row in self._report["rows"]
            for column, cell in zip(self._report["columns"], row["cells"])
        ]
        if not self.valid:
            tool.warn(f"{self.name}: {self.verdict.lines[0]}", invalid=True)
        floats = dict.fromkeys(("median", "lo", "hi", "paper"), pl.Float64)
        typed = {"seeds": pl.Int64, "sign": pl.String, "source": pl.String}
        if not rows:
            axes = {axis: KINDS[type(values[0])] if values else pl.String for axis, values in self.axes.items()}
            texts = {"metric": pl.String, "unit": pl.String}
            return pl.DataFrame(schema={**axes, **texts, "seeds": pl.Int64, **floats, "sign": pl.String, "source": pl.String})
        # Columns without a value have the type of those with values.
        return pl.DataFrame(rows, schema_overrides=typed, infer_schema_length=None).with_columns(pl.col(name).cast(kind) for name, kind in floats.items())

    def stream(self, name: str) -> pl.LazyFrame:
        """A stream of all runs that began, with axes and `seed` as first columns."""
        runs = self.runs
        if not runs:
            raise UsageError(f"{self.name}: all of its {len(self._planned)} planned runs are missing", 2)
        return pl.concat([run.stream(name).select(*_columns(run), pl.all()) for run in runs])

    def query(self, sql: str) -> pl.DataFrame:
        """The answer to one SELECT over all runs (docs/query.md)."""
        return query(self.path, sql, verify=self._verify)

    def compare(
        self,
        baseline: Sweep | str | os.PathLike[str],
        rules: str | os.PathLike[str] | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> Comparison:
        """Whether this sweep is better than `baseline`, by the tool's rules or those of a file. `out` also keeps the comparison."""
        return compare(self, baseline, rules, out)

    def __repr__(self) -> str:
        valid, lines = self._shown()
        state = "not judged" if valid is None else "valid" if valid else "INVALID"
        return f"<pktgen.Sweep {self._title()}, {state}>\n" + "\n".join(html.some(lines))

    def _repr_html_(self) -> str:
        valid, lines = self._shown()
        return html.box(self._title(), valid, lines, valid is None or self._unverified is None)

    def _title(self) -> str:
        never = f", {len(self.missing)} missing" if self.missing else ""
        return f"{self.name}: {len(self)} run{'' if len(self) == 1 else 's'}{never}"

    def _shown(self) -> tuple[bool | None, list[str]]:
        """Verdict and lines to show; no verdict of large sweeps that nothing has judged yet, nor where the tool refuses to judge."""
        if len(self) > SHOWN_JUDGED and "_report" not in self.__dict__:
            return None, ["`valid` and `verdict` judge the runs: the tool reads all of them"]
        try:
            verdict = self.verdict
        except PktgenError as error:
            return None, str(error).splitlines()
        return verdict.valid, verdict.lines + verdict.warnings


def run(
    experiment: str | os.PathLike[str],
    *,
    seeds: int | str | Iterable[int] | None = None,
    axes: Mapping[str, Iterable[object]] | None = None,
    set: Mapping[str, object] | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    check: bool = True,
    progress: bool | None = None,
    **settings_: object,
) -> Sweep:
    """Runs an experiment: a built-in one by name ("olaf/table1") or a file.

    Other keywords are settings: `slots=6` sets target.slots, as `target__slots=6` does; a key of several sections must
    name its own; `set={"target.slots": 6}` takes dotted keys. `seeds` is a number, an iterable or "1..5"; `axes` replaces
    values of the sweep's axes. Run dirs go to `out`, by default runs/NAME-N. An invalid run raises `InvalidRunError`, with
    `check=False` it only causes a warning.
    """
    if not isinstance(check, bool):
        raise UsageError(f"check={check!r} is not True or False; the setting of this name is target__check", 2)
    experiment = tool.path(experiment)
    changes = keys.overrides(experiment, seeds, axes, set, settings_)
    folder, made = (Path(tool.path(out)), False) if out is not None else (_free(experiment), True)
    words = ["replay", experiment, "--out", folder, *changes, *(["--jobs", jobs] if jobs is not None else [])]
    bar = Progress(folder, progress)
    try:
        answer = tool.call(*words, allow=(0, 1), tick=bar.tick)
    finally:
        bar.end()
        if made and not any(folder.iterdir()):
            folder.rmdir()
    sweep = Sweep(folder, report=tool.written(folder / "report.json", answer))
    place = f"{tool.path(folder)}{os.sep}"
    for note in answer.said("note: "):
        tool.warn(note.replace(place, ""))
    if not sweep.valid:
        message = "\n".join([sweep.verdict.lines[0], answer.message().replace(place, "")])
        if check:
            raise InvalidRunError(message, sweep)
        tool.warn(message, invalid=True)
    return sweep


def open(path: str | os.PathLike[str], verify: bool = True) -> Sweep:
    """A sweep or run dir that exists. With `verify=False` files that were changed are read, with a warning."""
    return Sweep(path, verify)


def query(path: str | os.PathLike[str], sql: str, verify: bool = True) -> pl.DataFrame:
    """The answer to one SELECT over a run dir, a sweep, a capture or tables of captures (docs/query.md)."""
    flags = () if verify else ("--no-verify",)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.parquet"
        words = ("--json", "--format", "parquet", "-o", file, *flags, "--", tool.path(path), sql)
        answer = tool.call("query", *words, allow=(0, 1))
        if not file.exists():
            raise PktgenError(answer.message())
        rows = pl.read_parquet(file)
    notes = answer.notes()
    tool.warn_of(notes, tool.PARTIAL)
    if answer.code != 0 and answer.message():
        tool.warn(answer.message(), invalid=True)
    # Captures have no such note.
    if not verify and all(note.code != "not_verified" for note in notes):
        tool.warn(f"{Path(path).name}: files were not compared with their digests (verify=False)")
    return rows


def _metrics(path: Path, planned: list[Run], patterns: tuple[str, ...], verify: bool) -> pl.DataFrame:
    """Metrics with the labels of their runs. Runs of a sweep in progress may begin during the call."""
    began = [run for run in planned if run._began()]
    table, _ = tool.metrics([path], patterns, () if verify else ("--no-verify",))
    # In the folder "." the tool's paths begin with "./", and those of Python do not.
    table = table.with_columns(pl.col("run").str.strip_prefix("./"))
    # Lines of a single run do not name it.
    one = len(began) == 1 and table["run"].null_count() == table.height
    named = {None: began[0]} if one else {_printed(run.path): run for run in planned}
    own = pl.concat([pl.select(pl.lit(name, pl.String).alias("run"), *_columns(run)) for name, run in named.items()])
    labels = [column for column in own.columns if column != "run"]
    # A metric's label with the name of an axis repeats the axis of its run.
    _check_repeated(table, own, [label for label in labels if label in table.columns])
    table = table.drop(labels, strict=False)
    joined = table.join(own, on="run", how="left", nulls_equal=True, maintain_order="left")
    unknown = joined.filter(pl.col("seed").is_null())["run"].unique(maintain_order=True)
    if not unknown.is_empty():
        what = f"its metrics are of {unknown[0] or 'a run without a name'}, which is not known here"
        raise PktgenError(f"{path}: {what}; if the sweep is in progress, repeat the call, else open it again")
    rest = [column for column in tool.used(table) if column not in ("metric", "unit", "value", "run")]
    return joined.select(*labels, "metric", "unit", "value", *rest)


def _check_repeated(table: pl.DataFrame, own: pl.DataFrame, labels: list[str]) -> None:
    """Refuses labels of metrics that have the name of an axis, and not the value that their run has there."""
    both = table.join(own, on="run", how="left", nulls_equal=True, maintain_order="left", suffix=" of its run")
    for label in labels:
        said, axis = both[label].cast(pl.String), both[f"{label} of its run"].cast(pl.String)
        same_number = (said.cast(pl.Float64, strict=False) == axis.cast(pl.Float64, strict=False)).fill_null(False)
        # Lines without the label are null.
        others = both.filter(~((said == axis) | same_number))
        if others.height > 0:
            name = others["metric"][0]
            raise UsageError(f'metric {name}: its label "{label}" has the name of an axis, and other values; give the column another name', 2)


def _printed(path: Path) -> str:
    """A path as the tool prints it, with replacements for what is not UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _columns(run: Run) -> list[pl.Expr]:
    labels = [pl.lit(value, KINDS[type(value)]).alias(axis) for axis, value in run.labels.items()]
    return [*labels, pl.lit(run.seed, pl.UInt64).alias("seed")]


def _invalid(row: dict[str, Any]) -> str:
    return f"invalid: {row['run']}: {'; '.join(row['reasons'])}"


def _free(experiment: str | os.PathLike[str]) -> Path:
    """A new folder runs/NAME-N."""
    path = Path(experiment)
    name = "-".join([*path.parts[-2:-1], path.stem]).lstrip("./")
    for n in range(1, 10_000):
        folder = Path("runs") / f"{name}-{n}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
    raise UsageError(f"runs/{name}-1 to -9999 all exist; choose a folder with out=", 2)


def _axes_above(path: Path, labels: dict[str, str]) -> list[tuple[str, list[str]]]:
    """The axes of the sweep in whose folder a run dir is, for their order and types; without one, those of its labels."""
    place = path.resolve()
    with suppress(OSError, ValueError, LookupError, TypeError):
        plan = json.loads((place.parent / "sweep.json").read_bytes())
        if any(row["dir"] == place.name and row["labels"] == labels for row in plan["runs"]):
            return [(axis, list(values)) for axis, values in plan["axes"]]
    return [(axis, [labels[axis]]) for axis in sorted(labels, key=lambda axis: (axis != "variant", axis))]


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise PktgenError(f"cannot read {path}: {error.strerror}") from error


def _read(path: Path) -> bytes:
    with _opened(path) as file:
        content: bytes = file.read()
    return content


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    """The JSON object in a file; an error if that is damaged."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise PktgenError(f"{path}: it is no JSON: {error}; restore it") from error
    if not isinstance(found, dict):
        raise PktgenError(f"{path}: it is no JSON object; restore it")
    return found


def _sealed(path: Path, text: bytes) -> bool:
    """It ends with a digest of what stands before it; an error if that is wrong."""
    body, key, digest = text.rpartition(SEAL)
    if key and hashlib.sha256(body).hexdigest().encode() != digest[:64]:
        raise PktgenError(_changed(path))
    return bool(key)


def _changed(path: Path) -> str:
    return f"{path}: its content is not what was written; restore it, or open(…, verify=False) to read it all the same"
