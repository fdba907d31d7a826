"""Keyword arguments as `--set` of the tool, experiments by name, and the tool's lists."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from . import _tool as tool
from ._errors import UsageError

# Columns of metrics that are labels of the runs, and not of the metric.
Label = bool | int | float | str
# Sections whose keys have no short keyword: each metric is a section of its own, and runs do not read the others.
FULL_ONLY = ("metrics", "certify", "calibrate")
# Their items are numbers, which are no settings.
BYTES = (bytes, bytearray)


def configs() -> pl.DataFrame:
    """The built-in experiments: `name`, and what each is about."""
    return pl.DataFrame(tool.lines("list", "configs")).select("name", "about")


def settings() -> pl.DataFrame:
    """The keys of experiments: section ("": top level), kind, name of the reader, key, default, range, meaning (docs/settings.md).

    Keys that are sections themselves, as target.launch, have a section and a name only.
    """
    rows = [row | {"section": "" if row["section"] == "top level" else row["section"]} for row in tool.lines("list", "--keys")]
    nested = {row["section"]: row["section"].rpartition(".") for row in rows if "." in row["section"]}
    rows += [{"section": section, "key": key} for section, _, key in nested.values()]
    return pl.DataFrame(rows, infer_schema_length=None).select("section", "kind", "name", "key", "default", "range", "about")


@lru_cache(maxsize=4)
def columns(_binary: str) -> dict[str, dict[str, str]]:
    """The columns of each stream with their types, as the binary writes them today."""
    found: dict[str, dict[str, str]] = {}
    for row in tool.lines("explain"):
        if row["kind"] == "column":
            found.setdefault(row["stream"], {})[row["column"]] = row["type"]
    return found


@lru_cache(maxsize=4)
def versions(_binary: str) -> dict[str, int]:
    """The newest version of each kind of JSON object and each stream that the binary reads."""
    return {row["name"]: row["version"] for row in tool.lines("list", "schemas")}


def check_version(path: Path, kind: str, version: object) -> None:
    """Refuses a file of a newer version than the binary reads, as the binary does (docs/stability.md)."""
    if version is None:
        return
    known = versions(tool.binary()).get(kind)
    if known is not None and isinstance(version, int) and version > known:
        raise UsageError(f"{path}: version {version} of {kind} is newer than {known}, the newest known here; update pktgen", 2)


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


def typed(axis: str, values: list[str]) -> list[Label]:
    """Values of an axis as whole numbers, numbers or truth values if all are; else as the text that the experiment has."""
    if axis == "variant":
        return list(values)
    if all(value in ("true", "false") for value in values):
        return [value == "true" for value in values]
    for kind in (int, float):
        try:
            return [kind(value) for value in values]
        except ValueError:
            continue
    return list(values)


def _plain(value: Any) -> Any:
    """A number or truth value of numpy as one of Python; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def toml(value: object) -> str:
    """A value as TOML."""
    value = _plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, Path)):
        # JSON leaves this character as it is, and no text of TOML has it.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml(str(key))} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Iterable) and not isinstance(value, BYTES):
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
    for section, word in settings().select("section", "key").unique(maintain_order=True).iter_rows():
        if section not in FULL_ONLY:
            found.setdefault(word, []).append(section)
    return found


@lru_cache(maxsize=64)
def _is_built_in_study(_binary: str, name: str) -> bool:
    """Whether the experiment of this name is a study."""
    return b"\n[study]\n" in tool.call("replay", name, "--print-config").out


def _is_study(experiment: str | os.PathLike[str]) -> bool:
    """Whether an experiment measures without a network: it has a section [study] in place of all others."""
    path = Path(experiment)
    if path.is_file():
        # The tool may refuse a file that settings complete; only of one that is not readable it says why.
        with suppress(OSError, ValueError):
            return "study" in tomllib.loads(path.read_text(encoding="utf-8"))
        return b"\n[study]\n" in tool.call("replay", experiment, "--print-config").out
    return _is_built_in_study(tool.binary(), os.fspath(experiment))


def key(word: str, experiment: str | os.PathLike[str]) -> str:
    """The dotted key that a keyword means: `target__slots` is target.slots, and `slots` too, which is of one section only."""
    if "__" in word:
        return word.replace("__", ".")
    known = _sections(tool.binary())
    sections = known.get(word, [])
    if len(sections) > 1 and "study" in sections:
        sections = ["study"] if _is_study(experiment) else [section for section in sections if section != "study"]
    if len(sections) == 1:
        return f"{sections[0]}.{word}".lstrip(".")
    if sections:
        ways = " or ".join(f"{section.replace('.', '__')}__{word}" for section in sections)
        raise UsageError(f"{word}: several sections have this key; write {ways}", 2)
    if any(word in names for names in known.values()):
        raise UsageError(f"{word} is a section; write {word}__KEY for each of its keys, or set={{'{word}.KEY': …}}", 2)
    near = difflib.get_close_matches(word, known, 1, 0.8)
    meant = f"did you mean {near[0]}?" if near else "write SECTION__KEY, as target__slots, or set={'target.slots': …};"
    raise UsageError(f"{word}: no section has this key, {meant} pktgen.settings() has them all", 2)


def _ranges(seeds: Iterable[int]) -> str:
    """Seeds as the experiment writes them, in their order: those that follow each other as "1..30"."""
    spans: list[list[int]] = []
    for seed in map(_plain, seeds):
        if isinstance(seed, bool) or not hasattr(seed, "__index__") or getattr(seed, "ndim", 0) > 0:
            raise UsageError(f'seeds cannot have {seed!r}; write whole numbers, or a text as "1..5"', 2)
        seed = int(seed)
        if spans and seed == spans[-1][1] + 1:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return ",".join(str(first) if first == last else f"{first}..{last}" for first, last in spans)


def overrides(
    experiment: str | os.PathLike[str],
    seeds: int | str | Iterable[int] | None,
    axes: Mapping[str, Iterable[object]] | None,
    changes: Mapping[str, object] | None,
    words: Mapping[str, object],
) -> list[str]:
    """The `--set` arguments."""
    chosen: dict[str, object] = {}
    seeds = _plain(seeds)
    # An array of numpy has __index__, too.
    if isinstance(seeds, Iterable) and not isinstance(seeds, (str, *BYTES)):
        chosen["sweep.seeds"] = _ranges(seeds)
    elif isinstance(seeds, str) or hasattr(seeds, "__index__"):
        chosen["sweep.seeds"] = seeds
    elif seeds is not None:
        raise UsageError(f'seeds cannot be {seeds!r}; write a number, a text as "1..5", or a list of numbers', 2)
    for what, given in (("axes", axes), ("set", changes)):
        if given is not None and not isinstance(given, Mapping):
            raise UsageError(f"{what} cannot be {given!r}; write a dict, as {{'target.slots': {'[6, 8]' if what == 'axes' else '6'}}}", 2)
    for axis, values in (axes or {}).items():
        if isinstance(values, (str, *BYTES)) or not isinstance(values, Iterable):
            raise UsageError(f"axes: the values of {axis} cannot be {values!r}; write a list of them", 2)
        chosen[f"sweep.axes.{axis}"] = list(values)
    keyed = [(key(word, experiment), value) for word, value in words.items()]
    for name, value in [*(changes or {}).items(), *keyed]:
        if name in chosen:
            raise UsageError(f"{name} is given twice", 2)
        chosen[name] = value
    return [word for name, value in chosen.items() for word in ("--set", f"{name}={toml(value)}")]
