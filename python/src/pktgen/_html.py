"""What notebooks show: the verdict first."""

from __future__ import annotations

from html import escape

COLOURS = {"INVALID": "#b3261e", "UNVERIFIED": "#8a5a00", "valid": "#1b6e3c"}


def box(title: str, valid: bool, lines: list[str], verified: bool) -> str:
    """A state, a title and lines; what is invalid or unverified says so first."""
    state = "INVALID" if not valid else "valid" if verified else "UNVERIFIED"
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        f'<div><b style="color:{COLOURS[state]}">{state}</b> <b>{escape(title)}</b>'
        f'<ul style="margin:0.2em 0">{items}</ul></div>'
    )
