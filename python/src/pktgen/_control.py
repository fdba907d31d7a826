"""Steers a run in progress over its control socket (docs/control.md)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ._errors import HostError, PktgenError, UsageError

VERSION = 1


@dataclass(frozen=True)
class ControlState:
    """How a run is steered. `speed` is against its schedule; None where there is no schedule, or no cap."""

    run: str | None
    t_ps: int
    held: bool
    speed: float | None
    pps: float | None
    changes: int


@dataclass(frozen=True)
class ControlEvent:
    """A run began, was changed (`applied_ps`: in force from then on), or ended."""

    event: str
    applied_ps: int | None
    state: ControlState


def _state(found: dict[str, Any]) -> ControlState:
    names = ("run", "t_ps", "held", "speed", "pps", "changes")
    return ControlState(**{name: found[name] for name in names})


class Control:
    """A run that was started with `--control`: `Control(run)` with its run dir or the socket that it printed.

    Methods that change the run return the time of the run, in ps, from which on the change is in force.
    """

    def __init__(self, run: str | Path, timeout: float = 10.0) -> None:
        self._path = _socket(Path(run))
        self._timeout = timeout
        self._number = 0
        self._stream = self._connect()
        self._lines = self._stream.makefile("r", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. The run goes on."""
        self._lines.close()
        self._stream.close()

    def status(self) -> ControlState:
        """How the run is steered at present."""
        return _state(self._ask("status")["state"])

    def start(self) -> int:
        """Begins to send, where the run was started with `--hold`."""
        return self._change("start")

    def stop(self) -> int | None:
        """Ends the run cleanly; without a time where no run that can be steered is in progress."""
        applied: int | None = self._ask("stop")["applied_ps"]
        return applied

    def pause(self) -> int:
        """Sends nothing until `resume`."""
        return self._change("pause")

    def resume(self) -> int:
        """Goes on."""
        return self._change("resume")

    def rate(self, pps: float) -> int:
        """Sends at this mean rate, in packets per second; of workers that react it is the cap."""
        return self._change("rate", pps=float(pps))

    def factor(self, factor: float) -> int:
        """Sends so many times as fast as now."""
        return self._change("rate", factor=float(factor))

    def reset(self) -> int:
        """Counts from 0 in live statistics; records keep everything."""
        return self._change("reset")

    def events(self) -> Iterator[ControlEvent]:
        """What happens from now on, over a connection of its own; ends with the process of the run."""
        # Closed if the run refuses.
        with ExitStack() as opened:
            stream = opened.enter_context(self._connect())
            lines = opened.enter_context(stream.makefile("r", encoding="utf-8"))
            self._talk(stream, lines, "events", {})
            stream.settimeout(None)
            kept = opened.pop_all()

        def follow() -> Iterator[ControlEvent]:
            with kept:
                for line in lines:
                    found = json.loads(line)
                    yield ControlEvent(found["event"], found["applied_ps"], _state(found["state"]))

        return follow()

    def _connect(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(self._timeout)
        try:
            stream.connect(str(self._path))
        except OSError as why:
            stream.close()
            raise HostError(f"{self._path}: no run is steered there: {why}; is it in progress?", 3) from why
        return stream

    def _change(self, cmd: str, **args: float) -> int:
        applied: int = self._ask(cmd, **args)["applied_ps"]
        return applied

    def _ask(self, cmd: str, **args: float) -> dict[str, Any]:
        return self._talk(self._stream, self._lines, cmd, args)

    def _talk(self, stream: socket.socket, lines: Any, cmd: str, args: dict[str, float]) -> dict[str, Any]:
        self._number += 1
        number = self._number
        request = {"v": VERSION, "id": number, "cmd": cmd, "args": args}
        try:
            # A run that refuses a client says why and closes the connection without reading.
            with suppress(BrokenPipeError, ConnectionResetError):
                stream.sendall((json.dumps(request) + "\n").encode())
            reply = self._reply(lines)
            # Replies to earlier commands whose caller was interrupted; a refusal of the client has no number.
            while reply.get("id") in range(1, number):
                reply = self._reply(lines)
        except OSError as why:
            raise HostError(f"{self._path}: the run does not answer: {why}; the command may still take effect", 3) from why
        if not reply["ok"]:
            raise PktgenError(f"{cmd}: {reply['error']}", 1)
        return reply

    def _reply(self, lines: Any) -> dict[str, Any]:
        line = lines.readline()
        if not line:
            raise HostError(f"{self._path}: the run closed the connection; has it ended?", 3)
        reply: dict[str, Any] = json.loads(line)
        return reply


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as stream:
        try:
            stream.connect(path)
        except OSError:
            return False
    return True


def _socket(run: Path) -> Path:
    if run.is_socket():
        return run
    # The runs of a sweep share a socket.
    running: dict[str, Path] = {}
    for manifest in [run / "manifest.json", *sorted(run.glob("*/manifest.json"))]:
        if manifest.is_file():
            found = json.loads(manifest.read_bytes())
            noted = found.get("host", {}).get("control.socket")
            # A later run may have the same path, and that of a killed one may still be there.
            if noted and found.get("state") == "running" and _listens(noted):
                running.setdefault(noted, manifest.parent)
    if len(running) > 1:
        first = next(iter(running.values()))
        raise UsageError(f"{run}: {len(running)} runs are in progress there; name one, as {first}", 2)
    for path in running:
        return Path(path)
    raise UsageError(f"{run}: it is no socket, and no run dir of a run in progress that was started with --control", 2)
