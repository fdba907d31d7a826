"""What notebooks show: the verdict first."""

from __future__ import annotations

from html import escape

#: Lines that are shown.
LINES = 20
COLOURS = {"NOT JUDGED": "#8a5a00", "INVALID": "#b3261e", "UNVERIFIED": "#8a5a00", "valid": "#1b6e3c"}


def some(lines: list[str]) -> list[str]:
    """The first lines, and how many were left out."""
    return lines if len(lines) <= LINES else [*lines[:LINES], f"… and {len(lines) - LINES} more lines"]


def box(title: str, valid: bool | None, lines: list[str], verified: bool) -> str:
    """A state, a title and lines; what is invalid, unverified or not judged (None) says so first."""
    state = "NOT JUDGED" if valid is None else "INVALID" if not valid else "valid" if verified else "UNVERIFIED"
    items = "".join(f"<li>{escape(line)}</li>" for line in some(lines))
    return (
        f'<div><b style="color:{COLOURS[state]}">{state}</b> <b>{escape(title)}</b>'
        f'<ul style="margin:0.2em 0">{items}</ul></div>'
    )
