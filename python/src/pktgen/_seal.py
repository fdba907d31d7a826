"""Digests at the end of manifests and sweeps (docs/records.md)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: What stands between the content and its digest.
SEAL = b',\n  "digest": "sha256:'


def without_digests(runs: Iterable[Path]) -> str | None:
    """What a reader of runs without digests must know; `None` if all have digests. The tool names manifests that cannot be read."""
    there = list(runs)
    without = [run for run in there if not _has_digests(run / "manifest.json")]
    if not without:
        return None
    why = "the manifest has no digests: an older version wrote it, or the run was killed"
    return f"{len(without)} of {len(there)} run{'' if len(there) == 1 else 's'} unverified: {why}"


def _has_digests(manifest: Path) -> bool:
    try:
        return SEAL in manifest.read_bytes()
    except OSError:
        return True
