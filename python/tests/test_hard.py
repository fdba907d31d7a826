"""Settings by every name, runs of older versions, sweeps that are cut short or large, odd names, and how the tool ends."""

import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pktgen
from conftest import SMALL
from pktgen import _keys, _tool

OLAF = "olaf/table1"
#: Files of older versions that must go on reading (docs/stability.md).
OLDER = Path(__file__).resolve().parents[2] / "cli/tests/fence/older"


@pytest.fixture
def copy(small: pktgen.Sweep) -> Path:
    """A sweep that a test may change."""
    return Path(shutil.copytree(small.path, "copy"))


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run dirs of older versions, below their commits."""
    folder = tmp_path_factory.mktemp("older")
    for archive in OLDER.glob("*.tar.zst"):
        with pa.input_stream(str(archive), compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            tar.extractall(folder / archive.name.removesuffix(".tar.zst"), filter="data")
    return folder


def test_the_current_folder_is_a_sweep(copy: Path, small: pktgen.Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy)
    assert pktgen.open(".").metrics("loss").equals(small.metrics("loss"))


def test_a_sweep_whose_plan_was_changed_is_refused(copy: Path) -> None:
    plan = copy / "sweep.json"
    text = plan.read_text()
    changed = text.replace('"dir": "Olaf,', '"dir": "FIFO,', 1)
    assert changed != text
    plan.write_text(changed)
    with pytest.raises(pktgen.PktgenError, match="sweep.json: its content"):
        pktgen.open(copy)


@pytest.mark.filterwarnings("ignore::pktgen.PktgenWarning")
@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff"])
def test_a_torn_file_is_named(copy: Path, text: bytes, verify: bool) -> None:
    run = pktgen.open(copy, verify).runs[0]
    (run.path / "manifest.json").write_bytes(text)
    for use in (lambda: run.manifest, lambda: pktgen.open(run.path, verify)):
        with pytest.raises(pktgen.PktgenError, match="manifest.json: it is no JSON"):
            use()
    (copy / "sweep.json").write_bytes(text)
    with pytest.raises(pktgen.PktgenError, match="sweep.json: it is no JSON"):
        pktgen.open(copy, verify)


def test_a_run_that_has_ended_since_is_read_again(copy: Path) -> None:
    run = pktgen.open(copy).runs[0]
    path = run.path / "manifest.json"
    ended = path.read_text()
    path.write_text(json.dumps({**json.loads(ended), "state": "running", "digest": None}))
    with pytest.warns(pktgen.PktgenWarning), pytest.raises(pktgen.UsageError, match="in progress"):
        run.stream("sent")
    path.write_text(ended)
    assert run.sent.collect().height > 0 and run.manifest is run.manifest


def test_a_metric_that_failed_is_warned_of() -> None:
    sweep = pktgen.run("olaf/table1", set={"metrics.tail.sql": "SELECT worker AS value FROM sent"}, **SMALL)
    with pytest.warns(pktgen.InvalidRunWarning, match="tail"):
        sweep.metrics("tail")


def test_a_report_without_metrics_has_the_columns_of_others(small: pktgen.Sweep) -> None:
    report, whole = pktgen.Sweep(small.path, report={**small._report, "columns": []}).report(), small.report()
    assert report.filter(pl.col("metric") == "loss").is_empty() and report.columns == whole.columns
    assert all(report.schema[name] == whole.schema[name] for name in ("topology.rate", "variant", "seeds", "median"))


def test_a_report_without_values_has_the_types_of_others(small: pktgen.Sweep) -> None:
    rows = [{**row, "cells": [{**cell, "ours": None, "paper": None} for cell in row["cells"]]} for row in small._report["rows"]]
    report = pktgen.Sweep(small.path, report={**small._report, "rows": rows}).report()
    assert report.height == small.report().height > 0
    kinds = {"seeds": pl.Int64, "median": pl.Float64, "paper": pl.Float64, "sign": pl.String, "source": pl.String}
    assert {name: report.schema[name] for name in kinds} == kinds
    assert report.filter(pl.col("source").str.contains("Table")).is_empty()


def test_labels_of_an_own_metric_are_columns_whatever_their_type() -> None:
    own = {
        "metrics.kinds.sql": "SELECT action_code AS kind, COUNT(*) AS value FROM books GROUP BY action_code",
        "metrics.repeated.sql": 'SELECT "target.slots", 1 AS value FROM runs',
    }
    sweep = pktgen.run("olaf/table1", set=own, **SMALL | {"axes": {"topology.rate": ["20Gbps"], "target.slots": [4, 8]}})
    table = sweep.metrics("kinds", "repeated")
    kinds = table.filter(pl.col("metric") == "kinds")
    assert kinds["kind"].null_count() == 0 and kinds.select("target.slots", "variant", "seed", "kind").is_duplicated().sum() == 0
    assert table.filter(pl.col("metric") == "repeated")["target.slots"].to_list() == [run.labels["target.slots"] for run in sweep]


def test_a_label_with_the_name_of_an_axis_and_other_values_is_refused() -> None:
    own = {"metrics.big.sql": 'SELECT worker AS "topology.rate", COUNT(*) AS value FROM sent GROUP BY worker'}
    sweep = pktgen.run("olaf/table1", set=own, **SMALL)
    for which in (sweep, sweep.runs[0]):
        with pytest.raises(pktgen.UsageError, match='metric big: its label "topology.rate" has the name of an axis'):
            which.metrics("big")
    assert sweep.metrics("loss").height == len(sweep)


@pytest.mark.parametrize("section", ["workload", "schedule", "format", "topology", "target", "endpoint", "transport", "capture", "sweep", "report", "target.lockstep"])
def test_settings_has_every_key_of_the_binary(section: str) -> None:
    with pytest.raises(pktgen.UsageError) as refused:
        pktgen.run(OLAF, set={f"{section}.nosuchkey": 1})
    known = re.search("keys here: (.*)", str(refused.value))
    assert known and set(known[1].split(", ")) == set(pktgen.settings().filter(pl.col("section") == section)["key"])


STUDY = """[study]
kind = "hot_precision"
model = "custom"
parameters = 20000
hot = 300
curve = "zipf"
updates = 200000
sample_rate = 0.1
step = 50
"""


def test_keywords_complete_an_experiment() -> None:
    file = Path("study.toml")
    file.write_text(STUDY)
    with pytest.raises(pktgen.UsageError, match="hot_share is missing"):
        pktgen.run(file)
    assert "hot_share = 0.6" in pktgen.run(file, seeds=1, hot_share=0.6).runs[0].config
    # A file that has become another experiment, and one that is not readable.
    assert _keys.key("model", file) == "study.model"
    file.write_text('[workload]\nkind = "dense"\n')
    assert _keys.key("model", file) == "workload.model"
    file.write_text("[study")
    with pytest.raises(pktgen.UsageError, match="not valid TOML"):
        _keys.key("model", file)


def test_keys_of_several_sections_must_name_theirs() -> None:
    for word, ways in {
        "records": "target__records or capture__records",
        "stop": "schedule__stop or target__launch__stop",
        "workers": "workload__workers or endpoint__workers",
        "kind": "workload__kind or schedule__kind",
    }.items():
        with pytest.raises(pktgen.UsageError, match=f"{word}: several sections have this key; write .*{ways}"):
            _keys.key(word, OLAF)
    assert [_keys.key(word, OLAF) for word in ("pcap", "lanes", "until", "burst", "baseline", "moves", "about", "seed")] == [
        "capture.pcap", "format.lanes", "capture.until", "schedule.burst", "report.baseline", "workload.moves", "about", "seed"]
    with pytest.raises(pktgen.UsageError, match="capture is a section; write capture__KEY"):
        _keys.key("capture", OLAF)
    for word in ("sql", "nosuchkey"):
        with pytest.raises(pktgen.UsageError, match=rf"{word}: no section has this key, write SECTION__KEY, as target__slots, or set="):
            _keys.key(word, OLAF)
    with pytest.raises(pktgen.UsageError, match="the setting of this name is target__check"):
        pktgen.run(OLAF, check="none")  # type: ignore[arg-type]
    with pytest.raises(pktgen.UsageError, match="sweep.seeds is given twice"):
        pktgen.run(OLAF, seeds=1, set={"sweep.seeds": 2})
    run = pktgen.run(OLAF, **SMALL | {"seeds": 1}, capture__records="none").runs[0]
    assert run.manifest["records"] == "none" and run.sent.collect().height == 0


def test_streams_of_older_versions_are_todays(older: Path, small: pktgen.Sweep) -> None:
    assert len(list(older.iterdir())) == 2
    for version in older.iterdir():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            olaf, training = pktgen.open(version / "sweep"), pktgen.open(version / "training").runs[0]
            for name in ("sent", "books", "received"):
                assert olaf.runs[0].stream(name).collect_schema() == small.runs[0].stream(name).collect_schema()
            assert olaf.stream("received").collect().height == sum(run.received.collect().height for run in olaf)
            raw = pl.read_parquet(training.path / "iterations.parquet", glob=False)
            now = training.iterations.collect()
            assert "job" not in raw.columns and now["job"].to_list() == raw["cluster"].to_list()
            assert training.received.collect()["cluster"].null_count() == training.received.collect().height > 0
            libra = next(run for run in pktgen.open(version / "sparse") if run.variant == "Libra").sent.collect()
            assert set(libra["heat"]) == set(pktgen.codes("heat"))
            with pytest.raises(pktgen.UsageError, match="lanes.parquet is of an older version"):
                pktgen.open(version / "lanes").run().stream("lanes")


def sealed(file: Path, old: str, new: str) -> None:
    """Replaces a text in a manifest or sweep, with the digest of the new content."""
    body, seal, _ = file.read_text().rpartition(',\n  "digest": "sha256:')
    changed = body.replace(old, new, 1)
    assert seal and changed != body
    file.write_text(f'{changed}{seal}{hashlib.sha256(changed.encode()).hexdigest()}"\n}}\n')


def test_newer_versions_are_refused(copy: Path) -> None:
    known = _keys.versions(pktgen.binary())
    assert {known[kind] for kind in ("manifest", "sweep", "sent")} == {2}
    run = pktgen.open(copy).runs[0]
    file = run.path / "sent.parquet"
    table, before = pq.read_table(file), file.read_bytes()
    for version, newer in (("2", False), ("3", True)):
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"pktgen.version": version.encode()}), file)
        listed = pktgen.open(copy).runs[0].manifest["files"]["sent.parquet"]
        sealed(run.path / "manifest.json", listed["sha256"], hashlib.sha256(file.read_bytes()).hexdigest())
        if newer:
            with pytest.raises(pktgen.UsageError, match="sent.parquet: version 3 of sent is newer than 2, the newest known here; update pktgen"):
                pktgen.open(copy).runs[0].sent
        else:
            assert pktgen.open(copy).runs[0].sent.collect().equals(pl.read_parquet(before))
    sealed(run.path / "manifest.json", '"version": 2', '"version": 3')
    refused = "manifest.json: version 3 of manifest is newer than 2, the newest known here; update pktgen"
    for use in (lambda: pktgen.open(run.path), lambda: run.received, lambda: repr(pktgen.open(copy).runs[0]), lambda: pktgen.open(copy).notes):
        with pytest.raises(pktgen.UsageError, match=refused):
            use()
    sealed(copy / "sweep.json", '"version": 2', '"version": 3')
    with pytest.raises(pktgen.UsageError, match="sweep.json: version 3 of sweep is newer than 2"):
        pktgen.open(copy)


def test_verdicts_of_older_versions_are_read(older: Path) -> None:
    for version in older.iterdir():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert pktgen.open(version / "sweep").notes == []
            device = pktgen.open(version / "device")
            assert [note.code for note in device.notes] == ["told" if version.name == "7799c96" else "part"]
            assert "the device part of a run" in device.notes[0].text
            assert "pktgen merge WORKERS DEVICE SERVER" in repr(device) and ">NOT JUDGED</b>" in device._repr_html_()
            killed = pktgen.open(version / "killed")
            with pytest.raises(pktgen.UsageError, match="killed; if it was killed, pktgen analyze --recover"):
                killed.run().sent


def reopen(folder: Path) -> None:
    """Makes the plan that of a sweep in progress: it lists no digests of manifests before it ends."""
    plan = json.loads((folder / "sweep.json").read_text())
    del plan["digest"]
    for row in plan["runs"]:
        del row["manifest"]
    (folder / "sweep.json").write_text(json.dumps(plan))


@pytest.mark.parametrize("first", [1, 3])
def test_runs_that_begin_after_a_sweep_was_opened_have_their_labels(copy: Path, small: pktgen.Sweep, first: int) -> None:
    reopen(copy)
    later = [run.name for run in small.runs[first:]]
    Path("later").mkdir()
    for name in later:
        (copy / name).rename(Path("later", name))
    sweep = pktgen.open(copy)
    assert (len(sweep), sweep.missing) == (first, later)
    with pytest.warns(pktgen.InvalidRunWarning, match="never began"):
        assert sweep.metrics("loss").equals(small.metrics("loss").head(first))
    for name in later:
        Path("later", name).rename(copy / name)
    assert sweep.metrics().equals(small.metrics()), "labels of every run"
    assert sweep.missing == [] and [run.name for run in sweep] == [run.name for run in small]
    rows = sweep.stream("sent").collect()
    assert rows.equals(small.stream("sent").collect()) and rows.height == sweep.query("SELECT COUNT(*) AS n FROM sent")["n"].item()


def test_a_run_is_found_without_a_look_at_the_others(small: pktgen.Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, runs, began = pktgen.open(small.path), small.runs, pktgen.Run._began
    looked: list[str] = []

    def look(run: pktgen.Run) -> bool:
        looked.append(run.name)
        return began(run)

    monkeypatch.setattr(pktgen.Run, "_began", look)
    for run in runs:
        assert sweep.run(variant=str(run.variant), seed=run.seed).path == run.path
    assert looked == [run.name for run in runs]
    assert [run.name for run in sweep.select(seed=1.0)] == [run.name for run in runs if run.seed == 1]
    with pytest.raises(pktgen.UsageError, match="^0 runs of "):
        sweep.run(variant=["Olaf"])  # type: ignore[arg-type]


def test_metrics_of_runs_that_the_opened_plan_lacks_are_refused(copy: Path) -> None:
    sweep = pktgen.open(copy)
    lost = sweep._planned.pop()
    with pytest.raises(pktgen.PktgenError, match=f"{re.escape(str(lost.path))}, which is not known here; if the sweep is in progress"):
        sweep.metrics("loss")


def test_answers_warn_of_sampled_records(small: pktgen.Sweep) -> None:
    counted = "SELECT COUNT(*) AS n FROM sent"
    sweep = pktgen.run(OLAF, **SMALL | {"seeds": 1}, capture__records="every:4")
    for use in (sweep.query, sweep.runs[0].query):
        with pytest.warns(pktgen.PktgenWarning, match="hold the recorded rows alone") as caught:
            assert use(counted)["n"].item() > 0
        assert [(warning.category, warning.filename) for warning in caught] == [(pktgen.PktgenWarning, __file__)]
    # Filters make warnings of other uses errors.
    assert small.query(counted)["n"].item() == 8 * 540 and sweep.metrics("loss").height == len(sweep)


def test_answers_warn_of_runs_without_digests(older: Path) -> None:
    counted = "SELECT COUNT(*) AS n FROM sent"
    with pytest.warns(pktgen.PktgenWarning, match="no digests .* in 7 more") as caught:
        assert pktgen.query(older / "7799c96/sweep", counted)["n"].item() > 0
    assert len(caught) == 1
    # This version wrote digests.
    assert pktgen.query(older / "f27ad16/sweep", counted)["n"].item() > 0


def test_reports_and_comparisons_warn_of_runs_without_digests(older: Path, copy: Path) -> None:
    bare = older / "7799c96/sweep"
    for use in (lambda sweep: sweep.report(), lambda sweep: sweep.verdict, lambda sweep: sweep.valid, lambda sweep: sweep._repr_html_()):
        sweep = pktgen.open(bare)
        with pytest.warns(pktgen.PktgenWarning, match="olaf-table1: 8 of 8 runs unverified: the manifest has no digests") as caught:
            use(sweep)
        assert [warning.filename for warning in caught] == [__file__], "once"
        assert sweep.valid and "no digests" in sweep.verdict.warnings[0] and "no digests" in repr(sweep)
        assert ">UNVERIFIED</b>" in sweep._repr_html_()
    with pytest.warns(pktgen.PktgenWarning, match="no digests"):
        assert ">UNVERIFIED</b>" in sweep.runs[0]._repr_html_()
    with pytest.warns(pktgen.PktgenWarning, match=r"olaf-table1: its files were not compared with their digests \(verify=False\)"):
        assert ">UNVERIFIED</b>" in pktgen.open(copy, verify=False)._repr_html_()
    again = Path(shutil.copytree(bare, "again"))
    with pytest.warns(pktgen.PktgenWarning) as caught:
        found = pktgen.compare(again, bare)
    assert found.valid and ">UNVERIFIED</b>" in found._repr_html_()
    said = "8 of 8 runs unverified: the manifest has no digests: an older version wrote it, or the run was killed"
    assert [str(warning.message) for warning in caught] == [f"again: {said}", f"sweep: {said}"]
    whole = pktgen.open(older / "f27ad16/sweep")
    assert whole.verdict.warnings == [] and ">valid</b>" in whole._repr_html_() and ">valid</b>" in whole.runs[0]._repr_html_()
    assert ">valid</b>" in pktgen.compare(copy, whole)._repr_html_()
    # Folders of run dirs need no plan.
    for folder in (copy, again):
        (folder / "sweep.json").unlink()
    assert ">valid</b>" in pktgen.compare(copy, whole)._repr_html_()
    with pytest.warns(pktgen.PktgenWarning, match=f"again: {said}"):
        assert ">UNVERIFIED</b>" in pktgen.compare(again, whole)._repr_html_()


def test_answers_warn_of_clocks_that_cannot_be_compared() -> None:
    run = pktgen.run(OLAF, **SMALL | {"seeds": 1}, capture__pcap=True).runs[0]
    counted, blocks = "SELECT COUNT(*) AS n FROM received", (run.path / "capture.pcapng").read_bytes()
    # The same packets without comments, captured at a time of day.
    plain, at = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1), 0
    while at < len(blocks):
        kind, length, _, high, low, size, full = struct.unpack_from("<7I", blocks.ljust(at + 28), at)
        if kind == 6:
            seconds, ns = divmod(high << 32 | low, 10**9)
            plain += struct.pack("<4I", 1_700_000_000 + seconds, ns, size, full) + blocks[at + 28 : at + 28 + size]
        at += length
    Path("plain.pcap").write_bytes(plain)
    with pytest.warns(pktgen.PktgenWarning, match="plain.pcap: times of senders and server do not count from one instant") as caught:
        there = pktgen.query("plain.pcap", counted)["n"].item()
    assert len(caught) == 1
    assert pktgen.query(run.path / "capture.pcapng", counted)["n"].item() == there > 0, "one clock, which is no caution"
    with pytest.warns(pktgen.PktgenWarning, match=r"not compared with their digests \(verify=False\)"):
        pktgen.query(run.path / "capture.pcapng", counted, verify=False)


def test_sweeps_that_were_cut_short_have_the_runs_that_began(copy: Path, small: pktgen.Sweep) -> None:
    gone = [run.name for run in small.runs[-3:]]
    for name in gone:
        shutil.rmtree(copy / name)
    reopen(copy)
    sweep = pktgen.open(copy)
    assert (len(sweep), sweep.missing, sweep.runs[-1].valid) == (5, gone, True)
    assert sweep.notes == [] and not sweep.valid
    assert sweep.stream("sent").collect().height == 5 * 540
    assert "5 runs, 3 missing, INVALID" in repr(sweep)
    with pytest.warns(pktgen.InvalidRunWarning, match="never began"):
        assert sweep.metrics("loss").height == 5
    with pytest.raises(pktgen.UsageError, match="0 runs of olaf-table1 have .*3 planned runs are missing"):
        sweep.run(variant="FIFO, full rate", seed=2)
    for run in sweep.runs[1:]:
        shutil.rmtree(run.path)
    with pytest.warns(pktgen.InvalidRunWarning):
        assert pktgen.open(copy).metrics("loss")["variant"].to_list() == ["FIFO"]
    shutil.rmtree(sweep.runs[0].path)
    nothing = pktgen.open(copy)
    assert (nothing.runs, nothing.notes, len(nothing.missing)) == ([], [], 8)
    for use in (lambda: nothing.metrics("loss"), lambda: nothing.stream("sent")):
        with pytest.raises(pktgen.PktgenError):
            use()


def test_a_manifest_that_a_sweep_lists_and_that_is_gone_is_named(copy: Path, small: pktgen.Sweep) -> None:
    lost = small.runs[0].name
    (copy / lost / "manifest.json").unlink()
    sweep = pktgen.open(copy)
    assert sweep.missing == [lost] and not sweep.valid
    with pytest.warns(pktgen.InvalidRunWarning, match="manifest.json: it is missing, and sweep.json lists it; restore it"):
        assert sweep.metrics("loss").height == 7


def test_what_is_shown_of_large_sweeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[dict[str, Any]] = [{"dir": f"seed={n}", "labels": {}, "seed": n} for n in range(3_000)]
    for row in runs:
        Path("large", row["dir"]).mkdir(parents=True)
        Path("large", row["dir"], "manifest.json").touch()
    Path("large/sweep.json").write_text(json.dumps({"experiment": "large", "axes": [], "runs": runs}))

    def refuse(*words: object, **more: object) -> None:
        raise AssertionError(f"{words} is called to show a sweep")

    monkeypatch.setattr(_tool, "call", refuse)
    opened = pktgen.open("large")
    assert "large: 3000 runs, not judged" in repr(opened) and ">NOT JUDGED</b>" in opened._repr_html_()
    bad = [{"run": row["dir"], "reasons": ["it was cut"]} for row in runs]
    report = {"verdict": {"valid": False, "worse": False, "lines": ["INVALID"]}, "invalid": bad, "warnings": []}
    judged = pktgen.Sweep("large", report=report)
    for shown in (repr(judged), judged._repr_html_()):
        # Their manifests have no digests, which is one line more.
        assert len(shown) < 3_000 and "… and 2982 more lines" in shown and "INVALID" in shown
    notes = [_tool.Note("x", "", "text")] * 3_000
    analysis = pktgen.Analysis("x", pl.DataFrame({"metric": ["a"]}), notes, True)
    assert "… and 2980 more lines" in repr(analysis) and "… and 2980 more lines" in analysis._repr_html_()


def test_many_seeds_fit_a_command_line() -> None:
    assert _keys._ranges([1, 2, 3, 7, 9, 8, 5, 6]) == "1..3,7,9,8,5..6"
    drafts = _tool.call("replay", OLAF, "--dry-run", *_keys.overrides(OLAF, range(30_000), None, None, {"updates": 1}))
    assert b"seed=0" in drafts.out + drafts.err.encode()
    with pytest.raises(pktgen.UsageError, match="sweep.seeds=.* is too long for a command line: .* write seeds as a range"):
        pktgen.run(OLAF, seeds=range(0, 60_000, 2))
    assert list(Path("runs").iterdir()) == []


def told(script: str) -> Path:
    """A binary that writes its number to the file `pid`, then becomes `script`."""
    path = Path("told").resolve()
    path.write_text(f"#!/bin/sh\necho $$ >{Path('pid').resolve()}\n{script}\n")
    path.chmod(0o755)
    return path


def runs_still(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_tool_ends_with_python(number: signal.Signals) -> None:
    own = {"PKTGEN": str(told(f'exec {pktgen.binary()} "$@"'))}
    call = "import pktgen; pktgen.run('olaf/table1', workload__updates=20000, seeds='1..5', out='out', jobs=1)"
    python = subprocess.Popen([sys.executable, "-c", call], env={**os.environ, **own})
    while not Path("out/sweep.json").exists():
        assert python.poll() is None
    child = int(Path("pid").read_text())
    python.send_signal(number)
    assert python.wait() == -number
    # Were it not ended, it would go on to the end of the sweep.
    while runs_still(child):
        pass
    states = [json.loads(path.read_text())["state"] for path in Path("out").glob("*/manifest.json")]
    assert len(states) < len(json.loads(Path("out/sweep.json").read_text())["runs"]), "it did not go on"
    assert "running" not in states, "it ended cleanly"


def test_a_second_interrupt_ends_a_tool_that_does_not_heed_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PKTGEN", str(told("trap '' INT; exec sleep 1000")))

    def again(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def interrupt() -> None:
        if Path("pid").exists() and Path("pid").read_text():
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, again)
    try:
        with pytest.raises(KeyboardInterrupt):
            _tool.call("list", tick=interrupt)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not runs_still(int(Path("pid").read_text()))


def test_files_are_utf_8_in_every_locale() -> None:
    Path("run").mkdir()
    Path("run/manifest.json").write_text('{"state": "größer", "host": {}}', encoding="utf-8")
    call = """if True:
        from pathlib import Path
        from pktgen import Control, UsageError, _progress, _tool
        path = Path("run/manifest.json")
        print(ascii(_tool.written(path, None)["state"]), ascii(_progress._read(path)["state"]))
        try:
            Control("run")
        except UsageError:
            print("read")
    """
    own = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", call], env={**os.environ, **own}, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["'gr\\xf6\\xdfer'"] * 2 + ["read"]


def test_names_with_spaces_and_brackets() -> None:
    odd = Path("a b [c]*")
    shutil.copy(Path(__file__).resolve().parents[2] / "configs/olaf/table1.toml", "my experiment.toml")
    sweep = pktgen.run("my experiment.toml", **SMALL | {"seeds": 1}, out=odd / "x y", capture__pcap=True)
    run = sweep.runs[0]
    assert run.sent.collect().height == 540 == run.query("SELECT COUNT(*) AS n FROM sent")["n"].item()
    assert sweep.metrics("received").height == len(sweep)
    tables = odd / "my tables"
    _tool.call("analyze", run.path / "capture.pcapng", "--tables", tables)
    found = pktgen.query(tables, "SELECT COUNT(*) AS n FROM received")["n"].item()
    assert found == pktgen.analyze(run.path / "capture.pcapng").value("received") > 0
    pktgen.compare(sweep, shutil.copytree(sweep.path, odd / "old one"), out=odd / "c d.html")
    assert (odd / "c d.html").exists()


def test_names_that_are_not_utf_8(small: pktgen.Sweep) -> None:
    sweep = pktgen.open(shutil.copytree(small.path, os.fsdecode(b"odd\xff")))
    assert sweep.metrics("loss").equals(small.metrics("loss"))
    assert sweep.runs[0].metrics("loss").equals(small.runs[0].metrics("loss"))
    with pytest.raises(pktgen.UsageError, match="odd\ufffd/.*whose path is not UTF-8; rename the folder"):
        sweep.stream("sent")


def test_a_run_that_is_opened_alone_has_the_columns_of_its_sweep() -> None:
    axes = {"workload.worker_sigma": [0.5, 1], "topology.rate": ["20Gbps"]}
    sweep = pktgen.run(OLAF, **SMALL | {"seeds": 1, "axes": axes})
    whole = sweep.metrics("loss")
    alone = [pktgen.open(run.path) for run in sweep]
    assert pl.concat([one.metrics("loss") for one in alone]).equals(whole)
    for run, one in zip(sweep, alone):
        assert one.runs[0].labels == run.labels and list(one.runs[0].labels) == list(sweep.axes) == list(one.axes)
        assert one.axes == {axis: [label] for axis, label in run.labels.items()}
        assert one.stream("sent").collect_schema() == sweep.stream("sent").collect_schema()
    # Elsewhere it has the types of its own values.
    run = sweep.select(worker_sigma=1)[0]
    Path("elsewhere").mkdir()
    for plan in (None, "[]", "{", '{"runs": [{}]}', json.dumps({"runs": [{"dir": "run", "labels": {}}], "axes": []})):
        if plan:
            Path("elsewhere/sweep.json").write_text(plan)
        found = pktgen.open(shutil.copytree(run.path, "elsewhere/run", dirs_exist_ok=True))
        assert list(found.axes.items()) == [("variant", [run.variant]), ("topology.rate", ["20Gbps"]), ("workload.worker_sigma", [1])]
        assert isinstance(found.runs[0].labels["workload.worker_sigma"], int)


@pytest.mark.parametrize("name", ["-x", "--help"])
def test_paths_may_begin_as_flags_do(name: str) -> None:
    shutil.copy(Path(__file__).resolve().parents[2] / "configs/olaf/table1.toml", f"{name}.toml")
    sweep = pktgen.run(f"{name}.toml", **SMALL | {"seeds": 1}, out=name, capture__pcap=True)
    run = pktgen.open(name).runs[0]
    assert sweep.metrics("loss").height == len(sweep) and sweep.runs[0].metrics("loss").height == 1
    assert pktgen.open(name).valid and pktgen.query(name, "SELECT COUNT(*) AS n FROM sent")["n"].item() > 0
    shutil.copy(run.path / "capture.pcapng", f"{name}.pcapng")
    shutil.copy(run.path / "sent.pcapng", f"{name}s.pcapng")
    assert pktgen.analyze(f"{name}.pcapng", sent=f"{name}s.pcapng", metrics="received").valid
    assert pktgen.analyze(Path(name), metrics="loss").metrics.height == len(sweep)
    Path(f"{name}.rules").write_text("")
    with pytest.raises(pktgen.UsageError, match=rf"\./{name}.rules"):
        pktgen.compare(name, sweep, rules=f"{name}.rules")
    shutil.copytree(name, "other")
    assert pktgen.compare(name, "other", out=f"{name}.html").valid and Path(f"{name}.html").exists()


def test_every_axis_and_label_is_a_column() -> None:
    axes = {"topology.rate": ["20Gbps"], "workload.worker_sigma": [0.1, 1, 2.5], "target.slot_in_transmission": [True, False]}
    sweep = pktgen.run(OLAF, **SMALL | {"seeds": 1, "updates": 40, "axes": axes}, reward="learning")
    points = {(run.variant, *(run.labels[axis] for axis in axes)) for run in sweep}
    assert len(points) == len(sweep) == 4 * 3 * 2
    table = sweep.metrics()
    for frame in (table, sweep.report()):
        assert set(frame.select("variant", *axes).unique().iter_rows()) == points
        assert [frame.schema[axis] for axis in axes] == [pl.String, pl.Float64, pl.Boolean]
    tenths = [f"{n}0%" for n in range(1, 11)]
    assert table.filter(pl.col("metric") == "reward_at")["tenth"].to_list() == tenths * len(sweep)
    assert sweep.runs[0].metrics("reward_at")["tenth"].to_list() == tenths
    assert pktgen.analyze(sweep.runs[0].path, metrics="reward_at").value("reward_at", tenth="100%") is not None
