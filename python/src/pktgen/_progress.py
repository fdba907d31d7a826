"""How far a sweep is: read from its folder, shown in a terminal or a notebook."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

# A run that is shorter shows nothing.
PATIENCE = 0.5
# Largest share of the time for counting runs: a run in real time may need the same cores.
SHARE = 0.02


class Progress:
    """Finished runs of the sweep in `folder`, by its sweep.json and manifests, which the tool writes as it goes."""

    def __init__(self, folder: Path, shown: bool | None) -> None:
        self._folder = folder
        self._begin = time.monotonic()
        self._waiting: list[Path] | None = None
        self._total = 0
        self._counted = ""
        self._next = 0.0
        self._show = _display(shown)
        self._last = ""

    def tick(self) -> None:
        """Shows what is new."""
        seconds = time.monotonic() - self._begin
        if self._show is None or seconds < PATIENCE:
            return
        if time.monotonic() >= self._next:
            begin = time.monotonic()
            self._counted = self._count()
            end = time.monotonic()
            self._next = end + (end - begin) / SHARE
        text = f"{self._folder.name}: {self._counted}{int(seconds)} s"
        if text != self._last:
            self._last = text
            self._show(text)

    def end(self) -> None:
        """Takes away what was shown."""
        if self._show is not None and self._last:
            self._show("")

    def _count(self) -> str:
        if self._waiting is None:
            plan = _read(self._folder / "sweep.json")
            # Of a single run it comes last.
            if plan is None:
                return ""
            self._waiting = [self._folder / run["dir"] / "manifest.json" for run in plan["runs"]]
            self._total = len(self._waiting)
        self._waiting = [path for path in self._waiting if (_read(path) or {}).get("state", "running") == "running"]
        return f"{self._total - len(self._waiting)} of {self._total} runs, "


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found
    except (OSError, ValueError):
        return None


def _display(shown: bool | None) -> Callable[[str], None] | None:
    """Where to show a line; none if nothing is to be shown. By default a notebook and a terminal."""
    if shown is False:
        return None
    notebook = _notebook()
    if notebook is not None:
        return notebook
    if not (shown or sys.stderr.isatty()):
        return None

    def line(text: str) -> None:
        # Back to the first column, and what stood there cleared.
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return line


def _notebook() -> Callable[[str], None] | None:
    """An output of the cell that is under way, if a notebook calls."""
    if "ipykernel" not in sys.modules:
        return None
    # By name, since the package does not depend on it.
    display = import_module("IPython.display")
    handle: Any = None

    def area(text: str) -> None:
        nonlocal handle
        content = display.HTML(f"<progress></progress> {text}" if text else "")
        if handle is None:
            handle = display.display(content, display_id=True)
        else:
            handle.update(content)

    return area
