"""The binary: where it is, calls of it, and what it writes to standard error."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ._errors import InvalidRunWarning, PktgenError, PktgenWarning, failure

# Seconds between two looks at a call in progress.
INTERVAL = 0.1
# Notes of an analysis with which its numbers may not be used, or only with care.
SERIOUS = {"invalid", "damaged", "nothing_found", "not_analysed"}
CAUTION = {"unverified", "not_verified", "told"}
# Lines of standard error that report what was done.
REPORTED = ("note: ", "runs: ", "report: ", "comparison: ", "warning: ")


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
        """The error: standard error without what only reports progress."""
        lines = [line for line in self.err.splitlines() if not line.startswith((*REPORTED, "{"))]
        return "\n".join(line.removeprefix("pktgen: ") for line in lines).strip()

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


def call(*words: object, allow: tuple[int, ...] = (0,), tick: Callable[[], None] | None = None) -> Answer:
    """Calls the binary; an exit code that is not in `allow` becomes an exception. `tick` is called while it runs."""
    # Files and not pipes: no output is so long that the tool waits.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = [binary(), *(str(word) for word in words)]
        try:
            # A session of its own: an interrupt reaches the tool once, from here.
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        except OSError as error:
            raise PktgenError(f"{command[0]} cannot be started: {error.strerror}; PKTGEN names the binary") from error
        code = _wait(child, tick)
        out.seek(0)
        err.seek(0)
        answer = Answer(code, out.read(), err.read().decode(errors="replace"))
    if code not in allow:
        raise failure(code, answer.message())
    return answer


def _wait(child: subprocess.Popen[bytes], tick: Callable[[], None] | None) -> int:
    """The exit code. An interrupt ends the tool cleanly first."""
    try:
        while True:
            try:
                return child.wait(INTERVAL if tick else None)
            except subprocess.TimeoutExpired:
                if tick:
                    tick()
    except BaseException:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
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
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def warn(text: str, invalid: bool = False) -> None:
    """A warning at the caller's line outside this package."""
    # Properties are called through functools.
    level, here = 1, (str(Path(__file__).parent), functools.__file__)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(here):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, InvalidRunWarning if invalid else PktgenWarning, stacklevel=level + 1)


def warn_of(notes: list[Note]) -> None:
    """Warns of notes that forbid or limit the use of numbers, once per code."""
    for code in dict.fromkeys(note.code for note in notes if note.code in SERIOUS | CAUTION):
        of = [note for note in notes if note.code == code]
        more = f" (and the like in {len(of) - 1} more)" if len(of) > 1 else ""
        where = f"{Path(of[0].run).name}: " if of[0].run else ""
        warn(f"{where}{of[0].text}{more}", code in SERIOUS)
