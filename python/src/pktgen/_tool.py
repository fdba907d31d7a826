"""The binary: where it is, calls of it, and what it writes to standard error."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl

from . import _html as html
from ._errors import InvalidRunWarning, PktgenError, PktgenWarning, UsageError, failure

# Seconds between two looks at a call in progress.
INTERVAL = 0.1
# Notes of an analysis with which its numbers may not be used, or only with care.
SERIOUS = {"invalid", "damaged", "nothing_found", "metric_failed", "not_analysed"}
CAUTION = {"unverified", "not_verified", "told"}
# Further notes with which an answer to SQL, unlike a metric, has numbers of fewer rows or of times that cannot be compared.
PARTIAL = {"records_not_full", "clocks_not_comparable"}
# Reads the number of a process, then waits for a line. If Python ends before it writes that line, the process is ended.
WATCH = 'read child && ! read ended && kill -s TERM "$child"'
# Lines of standard error that report what was done.
REPORTED = ("note: ", "runs: ", "report: ", "comparison: ", "warning: ")
# The traffic of a role in a real-time run; in a sweep its run dir is before it.
TRAFFIC = re.compile(r"(.*: )?(workers|device|server): sent \d+ frames, received \d+; ")


@dataclass(frozen=True)
class Note:
    """What the tool says about a run: a code of docs/verdicts.md, the run and a sentence."""

    code: str
    run: str
    text: str


@dataclass(frozen=True)
class Answer:
    """What a call printed."""

    code: int
    out: bytes
    err: str

    def message(self) -> str:
        """The error: standard error without what only reports what was done; of many lines the first, and the last, which has the cause."""
        lines = [line for line in self.err.splitlines() if not line.startswith((*REPORTED, "{")) and not TRAFFIC.match(line)]
        lines = "\n".join(line.removeprefix("pktgen: ") for line in lines).strip().splitlines()
        return "\n".join(lines if len(lines) <= html.LINES else [*html.some(lines[:-1]), lines[-1]])

    def said(self, prefix: str) -> list[str]:
        """Lines of standard error that begin with `prefix`, without it."""
        return [line.removeprefix(prefix) for line in self.err.splitlines() if line.startswith(prefix)]

    def notes(self) -> list[Note]:
        """Notes of an analysis, which are JSON lines."""
        rows = [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]
        return [Note(row["note"], str(row.get("run", "")), row["text"]) for row in rows if "note" in row]


def binary() -> str:
    """The path of the binary: `$PKTGEN`, else the one that this package installed, else the first `pktgen` in PATH."""
    chosen = os.environ.get("PKTGEN")
    if chosen:
        return chosen
    installed = Path(sysconfig.get_path("scripts")) / "pktgen"
    found = str(installed) if installed.is_file() else shutil.which("pktgen")
    if found is None:
        raise PktgenError(f"no pktgen: not in {installed.parent}, not in PATH; set the environment variable PKTGEN to the binary")
    return found


def path(given: object) -> str:
    """A path, or the name of an experiment, as a word of a command line, where one that begins with "-" would be a flag."""
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise UsageError(f"{given!r} is no path or name; write a text that is not empty, or a pathlib.Path", 2)
    return f"./{text}" if text.startswith("-") else text


def call(*words: object, allow: tuple[int, ...] = (0,), tick: Callable[[], None] | None = None) -> Answer:
    """Calls the binary; an exit code that is not in `allow` becomes an exception. `tick` is called while it runs."""
    # Files and not pipes: no output is so long that the tool waits.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _watcher() as watcher:
        command = [binary(), *(path(word) if isinstance(word, os.PathLike) else str(word) for word in words)]
        try:
            # A session of its own: an interrupt reaches the tool once, from here.
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        except OSError as error:
            if error.errno == errno.E2BIG:
                longest = max(command, key=len)
                ways = 'write seeds as a range ("1..30000"), or the setting into an experiment file'
                raise UsageError(f"{longest[:40]}… is too long for a command line: {len(longest)} characters; {ways}", 2) from error
            raise PktgenError(f"{command[0]} cannot be started: {error.strerror}; PKTGEN names the binary") from error
        _tell(watcher, str(child.pid))
        code = _wait(child, tick)
        _tell(watcher, "ended")
        out.seek(0)
        err.seek(0)
        answer = Answer(code, out.read(), err.read().decode(errors="replace"))
    if code not in allow:
        raise failure(code, answer.message())
    return answer


def _watcher() -> subprocess.Popen[bytes]:
    """Ends the tool when Python ends, killed or not: then the pipe between them closes. It outlives what ends Python's process group."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen(["/bin/sh", "-c", WATCH], bufsize=0, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)


def _tell(watcher: subprocess.Popen[bytes], line: str) -> None:
    assert watcher.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        watcher.stdin.write(f"{line}\n".encode())


def _wait(child: subprocess.Popen[bytes], tick: Callable[[], None] | None) -> int:
    """The exit code. An interrupt ends the tool cleanly first, a second one at once."""
    try:
        while True:
            try:
                return child.wait(INTERVAL if tick else None)
            except subprocess.TimeoutExpired:
                if tick:
                    tick()
    except BaseException:
        try:
            child.send_signal(signal.SIGINT)
            child.wait(10)
        except BaseException:
            child.kill()
            child.wait()
        raise


def lines(*words: object) -> list[dict[str, Any]]:
    """The JSON lines that a command prints, without the version of their kind."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in call(*words, "--json").out.splitlines()]
    for row in rows:
        row.pop("schema", None)
    return rows


def written(path: Path, answer: Answer) -> dict[str, Any]:
    """The JSON file that a call wrote; the error of the call if it did not."""
    if not path.exists():
        raise PktgenError(answer.message())
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def metrics(paths: Iterable[object], patterns: Iterable[str], flags: Iterable[object]) -> tuple[pl.DataFrame, Answer]:
    """The metrics that `pktgen analyze` finds, with a column per label, and what it says."""
    chosen = [word for pattern in patterns for word in ("--metric", pattern)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "metrics.parquet"
        answer = call("analyze", *paths, "--json", "--table", file, *chosen, *flags, allow=(0, 1))
        if not file.exists():
            raise PktgenError(answer.message())
        table = pl.read_parquet(file)
    warn_of(answer.notes())
    if answer.message():
        warn(answer.message(), invalid=True)
    if table["other"].null_count() < table.height:
        # Labels that no column of the table holds are one text there; the lines have each.
        labels = [json.loads(line)["labels"] for line in answer.out.splitlines()]
        rows = zip(labels, table.iter_rows(named=True))
        names = dict.fromkeys(name for line, row in rows for name, value in line.items() if row.get(name) != value)
        more = [pl.Series(name, [line.get(name) for line in labels], strict=False) for name in names]
        table = table.drop("other").with_columns(more)
    return table, answer


def used(table: pl.DataFrame) -> list[str]:
    """Columns of metrics: those that every metric has, and labels that at least one line has."""
    return [column for column in table.columns if column in ("metric", "unit", "value") or table[column].null_count() < table.height]


def warn(text: str, invalid: bool = False) -> None:
    """A warning at the caller's line outside this package."""
    # Properties are called through functools.
    level, here = 1, (str(Path(__file__).parent), functools.__file__)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(here):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, InvalidRunWarning if invalid else PktgenWarning, stacklevel=level + 1)


def warn_of(notes: list[Note], more: Set[str] = frozenset()) -> None:
    """Warns of notes that forbid or limit the use of numbers, and of codes in `more`, once per code."""
    for code in dict.fromkeys(note.code for note in notes if note.code in SERIOUS | CAUTION | more):
        of = [note for note in notes if note.code == code]
        others = f" (and the like in {len(of) - 1} more)" if len(of) > 1 else ""
        where = f"{Path(of[0].run).name}: " if of[0].run else ""
        warn(f"{where}{of[0].text}{others}", code in SERIOUS)
