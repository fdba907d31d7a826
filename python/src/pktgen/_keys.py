"""Keyword arguments as `--set` of the tool, experiments by name, and the tool's lists."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from . import _tool as tool
from ._errors import UsageError


# What stands at the top of an experiment.
TOP = ("name", "about", "seed")


def configs() -> pl.DataFrame:
    """The built-in experiments: `name`, and what each is about."""
    return pl.DataFrame(tool.lines("list", "configs")).select("name", "about")


def settings() -> pl.DataFrame:
    """The keys of experiments: section, kind, name of the reader, key, default, range, meaning (docs/settings.md)."""
    return pl.DataFrame(tool.lines("list", "--keys")).select("section", "kind", "name", "key", "default", "range", "about")


def explain(name: str) -> list[dict[str, Any]]:
    """Definition, unit, labels and direction of a metric, a column, a code or a name (docs/schema.md)."""
    return tool.lines("explain", name)


def codes(kind: str) -> dict[int, str]:
    """Names of the numbers in a column of codes: "action", "drop reason", "heat" or "sum_ok"."""
    rows = [row for row in tool.lines("explain") if "code" in row]
    if not any(row["kind"] == kind for row in rows):
        known = ", ".join(f'"{kind}"' for kind in dict.fromkeys(row["kind"] for row in rows))
        raise UsageError(f'codes: there is no list of codes "{kind}"; there are {known}', 2)
    return {row["code"]: row["name"] for row in rows if row["kind"] == kind}


def toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Iterable):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if hasattr(value, "__index__"):
        return str(int(value))
    if hasattr(value, "__float__"):
        return repr(float(value))
    raise UsageError(f"a setting cannot be {value!r}; write a number, a text, True, False, a list or a dict", 2)


@lru_cache(maxsize=4)
def _sections(_binary: str) -> dict[str, list[str]]:
    """Sections that have a key of this name."""
    found: dict[str, list[str]] = {}
    for row in tool.lines("list", "--keys"):
        known = found.setdefault(row["key"], [])
        if row["section"] not in known:
            known.append(row["section"])
    return found


@lru_cache(maxsize=64)
def _is_study(_binary: str, experiment: str) -> bool:
    """Whether an experiment measures without a network: it has a section [study] in place of all others."""
    return b"\n[study]\n" in tool.call("replay", experiment, "--print-config").out


def key(word: str, experiment: str | os.PathLike[str]) -> str:
    """The dotted key that a keyword means: `target__slots` is target.slots, and `slots` too, which is of one section only."""
    if "__" in word:
        return word.replace("__", ".")
    known = _sections(tool.binary())
    sections = known.get(word, [])
    if len(sections) > 1 and "study" in sections:
        study = _is_study(tool.binary(), os.fspath(experiment))
        sections = ["study"] if study else [section for section in sections if section != "study"]
    if len(sections) == 1:
        return f"{sections[0]}.{word}"
    if sections:
        ways = " or ".join(f"{section}__{word}" for section in sections)
        raise UsageError(f"{word}: several sections have this key; write {ways}", 2)
    near = difflib.get_close_matches(word, known, 1, 0.8) if word not in TOP else []
    if near:
        raise UsageError(f"{word}: no section has this key, did you mean {near[0]}? pktgen.settings() has them all", 2)
    # The tool refuses what does not stand there.
    return word


def overrides(
    experiment: str | os.PathLike[str],
    seeds: int | str | Iterable[int] | None,
    axes: Mapping[str, Iterable[object]] | None,
    changes: Mapping[str, object] | None,
    words: Mapping[str, object],
) -> list[str]:
    """The `--set` arguments."""
    chosen: dict[str, object] = {}
    if isinstance(seeds, str) or hasattr(seeds, "__index__"):
        chosen["sweep.seeds"] = seeds
    elif isinstance(seeds, Iterable):
        chosen["sweep.seeds"] = ",".join(str(seed) for seed in seeds)
    elif seeds is not None:
        raise UsageError(f'seeds cannot be {seeds!r}; write a number, a text as "1..5", or a list of numbers', 2)
    for what, given in (("axes", axes), ("set", changes)):
        if given is not None and not isinstance(given, Mapping):
            raise UsageError(f"{what} cannot be {given!r}; write a dict, as {{'target.slots': {'[6, 8]' if what == 'axes' else '6'}}}", 2)
    for axis, values in (axes or {}).items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UsageError(f"axes: the values of {axis} cannot be {values!r}; write a list of them", 2)
        chosen[f"sweep.axes.{axis}"] = list(values)
    chosen |= changes or {}
    for word, value in words.items():
        name = key(word, experiment)
        if name in chosen:
            raise UsageError(f"{name} is given twice", 2)
        chosen[name] = value
    return [word for name, value in chosen.items() for word in ("--set", f"{name}={toml(value)}")]
