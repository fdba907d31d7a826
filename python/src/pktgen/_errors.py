"""Exceptions with the tool's message, by its exit code, and the category of warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._sweep import Sweep


class PktgenError(Exception):
    """The tool failed: a file cannot be read or written, or the run was interrupted (exit code 1). Base class of the others."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class UsageError(PktgenError, ValueError):
    """A wrong argument, key, value, file or SQL statement (exit code 2). The message names what to change."""


class HostError(PktgenError):
    """This host cannot do it (exit code 3). The message names the remedy."""


class InvalidRunError(PktgenError):
    """The experiment ran, and a run is invalid (exit code 1). `sweep` holds what was recorded."""

    def __init__(self, message: str, sweep: Sweep) -> None:
        super().__init__(message, 1)
        self.sweep = sweep

    def __reduce__(self) -> tuple[type[InvalidRunError], tuple[str, Sweep]]:
        return type(self), (str(self), self.sweep)


class PktgenWarning(UserWarning):
    """What a reader of the numbers must know: a note of the tool, for example on files that were not verified."""


class InvalidRunWarning(PktgenWarning):
    """Numbers of an invalid run are in use."""


def failure(code: int, message: str) -> PktgenError:
    """The exception for an exit code."""
    kind = {2: UsageError, 3: HostError}.get(code, PktgenError)
    return kind(message or f"pktgen ended with exit code {code} and no message", code)
