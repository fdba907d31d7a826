"""The package against the real binary."""

import json
import pickle
import shutil
import subprocess
import tomllib
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import pktgen
from conftest import SMALL
from pktgen import _keys, _progress, _tool


def tool(*words: object) -> str:
    """What the binary prints when it is called directly."""
    return subprocess.run([pktgen.binary(), *map(str, words)], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def copy(small: pktgen.Sweep) -> Path:
    """A sweep that a test may change."""
    return Path(shutil.copytree(small.path, "copy"))


def test_metrics_are_the_lines_of_the_tool(small: pktgen.Sweep) -> None:
    table = small.metrics()
    lines = [json.loads(line) for line in tool("analyze", small.path, "--json").splitlines()]
    assert table["value"].to_list() == [line["value"] for line in lines]
    assert table["metric"].to_list() == [line["metric"] for line in lines]
    assert table["unit"].to_list() == [line["unit"] for line in lines]
    for row, line in zip(table.iter_rows(named=True), lines):
        run = small.run(variant=row["variant"], rate=row["topology.rate"], seed=row["seed"])
        assert Path(line["labels"].pop("run")).name == run.name
        rest = {name: value for name, value in row.items() if name not in run.labels and name not in ("seed", "metric", "unit", "value")}
        assert {name: value for name, value in rest.items() if value is not None} == line["labels"]
    assert small.run(variant="Olaf", seed=2).metrics("loss")["value"].item() == table.filter(
        pl.col("variant") == "Olaf", pl.col("seed") == 2, pl.col("metric") == "loss")["value"].item()


def test_axes_are_typed() -> None:
    sweep = pktgen.run("olaf/table1", **SMALL | {"axes": {"topology.rate": ["20Gbps"], "target.slots": [10, 4]}, "seeds": 3})
    schema = sweep.metrics("loss").schema
    assert schema["target.slots"] == pl.Int64 and schema["variant"] == pl.String and schema["seed"] == pl.UInt64
    assert sweep.axes["target.slots"] == [10, 4]
    assert sweep.report()["target.slots"].unique(maintain_order=True).to_list() == [10, 4]
    assert [run.labels["target.slots"] for run in sweep.select(variant="Olaf", slots=4)] == [4]


def test_axes_have_the_type_of_all_their_values() -> None:
    assert _keys.typed("study.p", ["0.5", "1"]) == [0.5, 1.0]
    assert _keys.typed("a.b", ["true", "false"]) == [True, False]
    assert _keys.typed("a.b", ["1", "x"]) == ["1", "x"]
    assert _keys.typed("variant", ["1", "2"]) == ["1", "2"]


def test_axes_of_judgements_are_typed() -> None:
    same = {"metric": "loss", "unit": "share", "outcome": "same", "required": True, "pairs": 5, "old": None, "new": None, "effect": None, "kind": "ratio", "why": ""}
    labels = [{"target.slots": "16", "variant": "1"}, {"target.slots": "4", "variant": "1", "a.b": "x"}]
    versus = [{"differences": None, "judgements": [{**same, "labels": own} for own in labels]}]
    found = pktgen.Comparison({"title": "", "outcome": "same", "valid": True, "lines": [], "notes": [], "versus": versus}).judgements()
    assert found.select("target.slots", "variant", "a.b").rows() == [(16, "1", None), (4, "1", "x")]
    # The new sweep has more values than the points that are judged, and the type of all of them.
    said = {"title": "", "outcome": "same", "valid": True, "lines": [], "notes": [], "versus": versus}
    found = pktgen.Comparison(said, True, {"target.slots": ["4", "8.5", "16"]}).judgements()
    assert found.schema["target.slots"] == pl.Float64 and found["target.slots"].to_list() == [16.0, 4.0]
    nothing = pktgen.Comparison({"title": "", "outcome": "same", "valid": True, "lines": [], "notes": [], "versus": []})
    assert nothing.judgements().filter(pl.col("outcome") == "worse").is_empty()
    assert nothing.judgements().columns == found.drop("target.slots", "variant", "a.b").columns
    # Axes have the types that they have with judgements.
    axes = {"target.slots": ["4", "8.5", "16"], "variant": ["1"], "a.b": ["x"]}
    nothing = pktgen.Comparison({**said, "versus": []}, True, axes).judgements()
    assert nothing.filter(pl.col("target.slots") == 4).is_empty()
    assert [nothing.schema[axis] for axis in axes] == [found.schema[axis] for axis in axes]


def test_judgements_without_values_have_the_types_of_others() -> None:
    none = {"labels": {"variant": "1"}, "metric": "loss", "unit": "share", "outcome": "cannot_tell", "required": True, "pairs": 0, "old": None, "new": None, "effect": None, "kind": None, "why": None}
    said = {"title": "", "outcome": "cannot_tell", "valid": True, "lines": [], "notes": [], "versus": [{"differences": [], "judgements": [none]}]}
    found = pktgen.Comparison(said).judgements()
    empty = pktgen.Comparison({**said, "versus": []}, True, {"variant": ["1"]}).judgements()
    assert dict(found.schema) == dict(empty.schema) and found.height == 1
    assert found.filter(pl.col("why").str.contains("noise") | (pl.col("effect") > 0)).is_empty()


OLAF = "olaf/table1"


def test_keywords_are_settings() -> None:
    assert _keys.key("slots", OLAF) == _keys.key("target__slots", OLAF) == "target.slots"
    assert _keys.key("rate", OLAF) == "topology.rate" and _keys.key("rate", "soar/figure6") == "study.rate"
    with pytest.raises(pktgen.UsageError, match="endpoint__timeout or target__timeout"):
        _keys.key("timeout", OLAF)
    with pytest.raises(pktgen.UsageError, match="did you mean slots"):
        _keys.key("slotss", OLAF)
    with pytest.raises(pktgen.UsageError, match="target.slots is given twice"):
        _keys.overrides(OLAF, None, None, {"target.slots": 1}, {"slots": 2})
    words = _keys.overrides(OLAF, range(3), {"a.b": ("x", 1.5)}, {"c": True}, {"name": 'q"ö'})
    assert words[1::2] == ['sweep.seeds="0..2"', 'sweep.axes.a.b=["x", 1.5]', "c=true", 'name="q\\"ö"']
    assert _keys.toml({"a b": [1, False]}) == '{ "a b" = [1, false] }'
    assert _keys.toml(pl.Series([2]).to_numpy()[0]) == "2"
    with pytest.raises(pktgen.UsageError, match="a setting cannot be None"):
        _keys.toml(None)
    sweep = pktgen.run("olaf/table1", **SMALL | {"seeds": range(2)}, slots=5, name='q"ö')
    assert [run.seed for run in sweep.select(variant="Olaf")] == [0, 1]
    assert sweep.name == 'q"ö' and "slots = 5" in sweep.run(variant="Olaf", seed=1).config


def test_settings_may_be_of_numpy() -> None:
    seeds = pl.Series([1, 2, 3]).to_numpy()
    assert _keys.overrides(OLAF, seeds, None, None, {}) == ["--set", 'sweep.seeds="1..3"']
    assert _keys.overrides(OLAF, seeds[0], None, None, {}) == _keys.overrides(OLAF, seeds[0].reshape(()), None, None, {}) == ["--set", "sweep.seeds=1"]
    assert _keys.toml((seeds > 0)[0]) == "true" and _keys.toml(seeds > 1) == "[false, true, true]"
    assert _keys.toml(seeds / 2) == "[0.5, 1.0, 1.5]" and _keys.toml({"a": seeds[1].reshape(())}) == '{ "a" = 2 }'


def test_texts_are_toml_whatever_their_characters() -> None:
    odd = '\x7f\x00\x1f\n"\\\x7f😀ö'
    assert tomllib.loads(f"a = {_keys.toml({odd: [odd]})}") == {"a": {odd: [odd]}}
    assert pktgen.run("olaf/table1", **SMALL, name="n\x7f").name == "n\x7f"


def test_bytes_and_tables_are_no_numbers() -> None:
    table = pl.Series([1, 2, 3, 4]).to_numpy().reshape(2, 2)
    for seeds in (b"12", bytearray(b"12"), table):
        with pytest.raises(pktgen.UsageError, match="seeds cannot"):
            _keys.overrides(OLAF, seeds, None, None, {})
    with pytest.raises(pktgen.UsageError, match="a setting cannot be b'12'"):
        _keys.toml(b"12")
    with pytest.raises(pktgen.UsageError, match="the values of a cannot be b'12'"):
        _keys.overrides(OLAF, None, {"a": b"12"}, None, {})


def test_errors_are_known_by_exit_code() -> None:
    with pytest.raises(pktgen.UsageError, match="^--set target.slots=0: target.slots: 0 is not from 1 to 1048576$") as usage:
        pktgen.run("olaf/table1", slots=0)
    assert usage.value.code == 2
    with pytest.raises(pktgen.UsageError, match='did you mean "olaf/table1"'):
        pktgen.run("olaf/tabel1")
    assert list(Path("runs").iterdir()) == [], "no empty folder is left"
    with pytest.raises(pktgen.HostError, match='no interface "nope0"') as host:
        pktgen.run("wires/live", transport__kind="af_packet", interfaces=["nope0", "nope1", "nope2"])
    assert host.value.code == 3
    with pytest.raises(pktgen.UsageError, match="neither a sweep"):
        pktgen.open(".")
    with pytest.raises(pktgen.UsageError, match='there is no column "x"'):
        pktgen.query(pktgen.run("olaf/table1", **SMALL).path, "SELECT x FROM sent")


def test_a_statement_may_begin_with_a_comment() -> None:
    sweep = pktgen.run("olaf/table1", **SMALL)
    counted = "SELECT COUNT(*) AS n FROM sent"
    assert sweep.query(f"-- updates\n{counted}")["n"].item() == sweep.query(counted)["n"].item() > 0


def test_a_binary_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PKTGEN", "/nowhere/pktgen")
    with pytest.raises(pktgen.PktgenError, match="/nowhere/pktgen cannot be started: No such file"):
        pktgen.configs()
    monkeypatch.delenv("PKTGEN")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(pktgen.PktgenError, match="set the environment variable PKTGEN"):
        pktgen.binary()


LATE: dict[str, object] = {"updates": 5, "transport__late": "abort", "late_limit": "1ps", "progress": False}


def test_an_invalid_run_is_an_error_and_keeps_its_records() -> None:
    with pytest.raises(pktgen.InvalidRunError, match="(?s)INVALID: .*above transport.late_limit") as invalid:
        pktgen.run("wires/live", **LATE)
    sweep = invalid.value.sweep
    assert not sweep.valid and invalid.value.code == 1
    assert [fault.code for fault in sweep.run().faults] == ["too_late_aborted"]
    assert sweep._repr_html_().split(">INVALID</b>")[0].count("<b") == 1, "the verdict is first"
    assert "INVALID" in repr(sweep) and "INVALID" in repr(sweep.run()) and ">INVALID</b>" in sweep.run()._repr_html_()


def test_errors_have_no_lines_of_progress_and_not_all_of_many() -> None:
    with pytest.raises(pktgen.InvalidRunError) as invalid:
        pktgen.run("wires/live", **LATE)
    said = str(invalid.value).splitlines()
    assert len(said) == 2 and said[0].startswith("INVALID: ") and said[1].startswith("invalid run "), said
    roles = ["workers", "a b/c: device", "x,rate=1,seed=2: server"]
    lines = [f"{role}: sent 9 frames, received 7; 9 frames heard, 900 B" for role in roles]
    lines += [f"pktgen: seed={n} was not analysed: device: sent nothing" for n in range(349)]
    text = _tool.Answer(1, b"", "\n".join(lines)).message().splitlines()
    assert text == [f"seed={n} was not analysed: device: sent nothing" for n in range(20)] + ["… and 328 more lines", lines[-1].removeprefix("pktgen: ")]


def test_numbers_of_an_invalid_run_warn() -> None:
    with pytest.warns(pktgen.InvalidRunWarning) as caught:
        sweep = pktgen.run("wires/live", **LATE, check=False)
    assert [warning.filename for warning in caught] == [__file__], "the warning names the caller"
    for use in (sweep.metrics, sweep.report, lambda: sweep.run().sent, lambda: sweep.query("SELECT COUNT(*) AS n FROM sent")):
        with pytest.warns(pktgen.InvalidRunWarning):
            use()


def test_changed_files_are_refused_or_warned_of(copy: Path, small: pktgen.Sweep) -> None:
    run = pktgen.open(copy).run(variant="Olaf", seed=1)
    assert run.sent.collect().height == 540
    text = (run.path / "sent.parquet").read_bytes()
    (run.path / "sent.parquet").write_bytes(text[:999] + bytes([text[999] ^ 1]) + text[1000:])
    with pytest.raises(pktgen.PktgenError, match="sent.parquet: its content is not what was written"):
        run.sent
    assert run.received.collect().height > 0
    with pytest.warns(pktgen.InvalidRunWarning, match="sent.parquet: its content is not what was written"):
        pktgen.open(copy).metrics("received")
    assert not pktgen.open(copy).valid
    with pytest.warns(pktgen.InvalidRunWarning, match="INVALID"):
        found = pktgen.compare(copy, small)
    assert not found.valid and repr(found).split("\n")[0].endswith(": invalid>")
    manifest = run.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 1', '"seed": 3'))
    with pytest.raises(pktgen.PktgenError, match="manifest.json: its content is not what was written"):
        pktgen.open(copy).run(variant="Olaf", seed=1).manifest
    unverified = pktgen.open(copy, verify=False)
    for use in (lambda: unverified.run(variant="Olaf", seed=1).received, lambda: unverified.query("SELECT COUNT(*) AS n FROM received")):
        with pytest.warns(pktgen.PktgenWarning, match="not compared with their digests") as caught:
            use()
        assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(pktgen.PktgenWarning, match="not compared with their digests"):
        assert ">UNVERIFIED</b>" in pktgen.open(copy, verify=False).run(variant="FIFO", seed=1)._repr_html_()


@pytest.mark.parametrize("unverified", ["new", "old", None])
def test_a_comparison_verifies_as_its_sides_do(unverified: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"title": "new against old", "outcome": "same", "valid": True, "lines": [], "notes": [], "versus": []}
    calls: list[tuple[object, ...]] = []

    def call(*words: object, allow: tuple[int, ...]) -> _tool.Answer:
        calls.append(words)
        Path(str(words[words.index("--out") + 1])).write_text(json.dumps(said))
        return _tool.Answer(0, b"", "")

    monkeypatch.setattr(_tool, "call", call)
    for name in ("new", "old"):
        Path(name).mkdir()
        (Path(name) / "sweep.json").write_text('{"experiment": "x", "axes": [], "runs": []}')
    new, old = (pktgen.open(name, verify=name != unverified) for name in ("new", "old"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = new.compare(old)
    assert ("--no-verify" in calls[0]) == (unverified is not None)
    wanted = ["new against old: files of both sides were not compared with their digests (verify=False)"] if unverified else []
    assert [str(warning.message) for warning in caught] == wanted and all(warning.filename == __file__ for warning in caught)
    assert (">UNVERIFIED</b>" if unverified else ">valid</b>") in found._repr_html_()


def test_a_changed_run_is_compared_if_files_are_not_verified(copy: Path, small: pktgen.Sweep) -> None:
    run = pktgen.open(copy).run(variant="Olaf", seed=1)
    digest, manifest = run.manifest["files"]["sent.parquet"]["sha256"], run.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace(digest, digest[::-1]))
    with pytest.warns(pktgen.InvalidRunWarning, match="INVALID"):
        assert not pktgen.compare(copy, small).valid
    with pytest.warns(pktgen.PktgenWarning, match="not compared with their digests"):
        assert pktgen.open(copy, verify=False).compare(small).valid


def test_streams_say_what_is_not_recorded(small: pktgen.Sweep) -> None:
    with pytest.raises(pktgen.UsageError, match="no stream states; there are: books, received, sent"):
        small.run(variant="Olaf", seed=1).stream("states")
    with pytest.raises(pktgen.UsageError, match="2 runs of olaf-table1 have"):
        small.run(variant="Olaf")
    with pytest.raises(pktgen.UsageError, match="no axis color"):
        small.select(color="red")
    both = small.stream("sent").collect()
    assert both.height == sum(run.sent.collect().height for run in small) == 8 * 540
    assert both.columns[:3] == ["variant", "topology.rate", "seed"]


def test_comparisons_have_the_verdict_of_the_tool(small: pktgen.Sweep) -> None:
    again = pktgen.run("olaf/table1", **SMALL)
    assert again.compare(small).outcome == "same"
    other = pktgen.run("olaf/table1", **SMALL | {"seeds": "1..5"}, slots=2)
    base = pktgen.run("olaf/table1", **SMALL | {"seeds": "1..5"})
    found = pktgen.compare(other, base.path, out="compare.json")
    said = json.loads(Path("compare.json").read_text())
    assert (found.outcome, found.valid, found.lines) == (said["outcome"], said["valid"], said["lines"])
    assert found.differences == ["target.slots: 8 → 2"]
    rows, listed = found.judgements(), said["versus"][0]["judgements"]
    assert rows["effect"].to_list() == [(row["effect"] or {}).get("value") for row in listed]
    assert found._repr_html_().index(">valid</b>") < found._repr_html_().index("against")
    with pytest.raises(pktgen.PktgenError, match="cannot read rules gone.toml"):
        pktgen.compare(other, base, rules="gone.toml")


def test_reports_have_the_published_values(small: pktgen.Sweep) -> None:
    row = small.report().filter(pl.col("variant") == "FIFO", pl.col("metric") == "loss").row(0, named=True)
    assert (row["paper"], row["source"], row["seeds"]) == (0.743, "Table 1", 2)
    assert pktgen.open(small.path).verdict == small.verdict


def test_captures_have_the_metrics_of_their_run() -> None:
    sweep = pktgen.run("olaf/table1", **SMALL | {"seeds": 1}, capture__pcap=True)
    run = sweep.run(variant="Olaf")
    found = pktgen.analyze(run.path / "capture.pcapng", sent=run.path / "sent.pcapng")
    own = run.metrics("aom_mean").filter(pl.col("flow") == "cluster", pl.col("id").is_null())["value"].item()
    assert found.valid and found.value("aom_mean", flow="cluster") == own
    assert ">valid</b>" in found._repr_html_()
    both = pktgen.analyze(run.path / "capture.pcapng", sent=[run.path / "sent.pcapng", str(run.path / "sent.pcapng")])
    assert both.value("sent") == found.value("sent")
    (text := bytearray((run.path / "capture.pcapng").read_bytes())).extend(b"damaged")
    Path("damaged.pcapng").write_bytes(text)
    with pytest.warns(pktgen.InvalidRunWarning, match="damaged.pcapng"):
        assert not pktgen.analyze("damaged.pcapng").valid


def test_a_metric_without_a_value_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"metric": "time_to_goal", "unit": "ns", "value": None, "flow": None}, {"metric": "aom_mean", "unit": "ns", "value": None, "flow": "worker"}]
    whole = pl.DataFrame(lines, schema={"metric": pl.String, "unit": pl.String, "value": pl.Float64, "flow": pl.String})
    found = []
    for table in (whole.clear(), whole.head(1), whole):
        monkeypatch.setattr(_tool, "metrics", lambda *_, table=table: (table, _tool.Answer(0, b"", "")))
        found.append(pktgen.analyze("x"))
        assert found[-1].metrics.columns[:3] == ["metric", "unit", "value"]
        with pytest.raises(pktgen.UsageError, match="no such metric"):
            found[-1].value("nosuch")
    _, one, both = found
    assert one.metrics.columns == ["metric", "unit", "value"], "labels that no line has are left out"
    assert one.value("time_to_goal") is None and one.value("time_to_goal", flow=None) is None
    assert both.value("time_to_goal", flow=None) is None and both.value("aom_mean", flow="worker") is None
    with pytest.raises(pktgen.UsageError, match="0 values"):
        both.value("aom_mean", flow=None)


def test_labels_of_a_value_are_numbers_or_their_texts() -> None:
    lines = [{"metric": "a", "unit": "", "value": float(n), "id": n, "kind": str(n)} for n in range(3)]
    whole = pl.DataFrame(lines, schema={"metric": pl.String, "unit": pl.String, "value": pl.Float64, "id": pl.UInt64, "kind": pl.String})
    for table in (whole, whole.cast({"id": pl.String}), whole.cast({"kind": pl.Int64})):
        found = pktgen.Analysis("x", table, [], True)
        assert [found.value("a", id=1, kind="1"), found.value("a", id="2", kind=2)] == [1.0, 2.0]
        for labels in ({"id": "x", "kind": 1}, {"id": 1}, {"id": [1], "kind": 1}, {"id": 1, "kind": None}):
            with pytest.raises(pktgen.UsageError, match="0 values; there are, with these labels"):
                found.value("a", **labels)


def test_notes_of_a_run_are_warnings() -> None:
    with pytest.warns(pktgen.PktgenWarning, match="as fast as they could") as caught:
        sweep = pktgen.run("wires/live", updates=5, pacing="top", progress=False)
    assert not any(issubclass(warning.category, pktgen.InvalidRunWarning) for warning in caught)
    assert "top_speed" in [note.code for note in sweep.notes]


def test_progress_is_read_from_the_folder(small: pktgen.Sweep, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    bar = _progress.Progress(small.path, True)
    bar.tick()
    assert "sweep: 8 of 8 runs, 0 s" in capsys.readouterr().err
    bar.end()
    silent = _progress.Progress(small.path, None)
    silent.tick()
    silent.end()
    assert capsys.readouterr().err == "\r\x1b[K", "what was shown is taken away, and no terminal shows nothing"


def test_progress_of_many_runs_takes_little_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now, reads = 0.0, 0

    def read(path: Path) -> dict[str, Any]:
        nonlocal now, reads
        if path.name == "sweep.json":
            return {"runs": [{"dir": str(i)} for i in range(5000)]}
        now, reads = now + 20e-6, reads + 1
        return {"state": "running"}

    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(_progress, "_read", read)
    bar = _progress.Progress(Path("many"), True)
    for _ in range(600):
        now += 0.1
        bar.tick()
    assert 0 < reads * 20e-6 < 0.03 * now
    assert "many: 0 of 5000 runs, 30 s" in capsys.readouterr().err


def test_an_interrupt_ends_the_tool() -> None:
    began: list[float] = []

    def interrupt() -> None:
        # Once the plan of the sweep is there, runs are under way.
        if Path("out/sweep.json").exists():
            began.append(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _tool.call("replay", "olaf/table1", "--out", "out", "--set", "workload.updates=20000", tick=interrupt)
    assert began
    plan = json.loads(Path("out/sweep.json").read_text())
    finished = [run for run in plan["runs"] if (Path("out") / run["dir"] / "manifest.json").exists()]
    assert len(finished) < len(plan["runs"]), "it did not go on to the end"


def test_no_warning_where_there_is_nothing_to_warn_of(small: pktgen.Sweep) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small.metrics(), small.report(), small.run(variant="Olaf", seed=1).books.collect(), repr(pktgen.open(small.path))


def test_wrong_arguments_are_usage_errors(small: pktgen.Sweep, copy: Path, tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"seeds": seeds} for seeds in (1.5, [1.5], [1, 2.0], ["1..3"], [True])]
    wrong += [{"axes": ["x"]}, {"axes": {"target.slots": 8}}, {"axes": {"topology.rate": "5Gbps"}}, {"set": ["a=1"]}]
    for words in wrong:
        with pytest.raises(pktgen.UsageError):
            pktgen.run("olaf/table1", updates=10, **words)
    for experiment in ("", ".", "/", "..", None, {}, 3, b"olaf/table1"):
        with pytest.raises(pktgen.UsageError, match="is no path or name|cannot be read: Is a directory"):
            pktgen.run(experiment)  # type: ignore[arg-type]
        assert not Path("runs").exists() or list(Path("runs").iterdir()) == []
    for path in ("", None, {}, 3):
        for use in (pktgen.open, pktgen.analyze, lambda path: pktgen.query(path, "SELECT 1"), lambda path: pktgen.run("olaf/table1", out=path or "")):
            with pytest.raises(pktgen.UsageError, match="is no path or name"):
                use(path)  # type: ignore[arg-type]
    with pytest.raises(pktgen.UsageError, match="cannot be compared"):
        small.compare(None)  # type: ignore[arg-type]
    with pytest.raises(pktgen.PktgenError, match="nowhere"):
        small.compare(copy, out=tmp_path / "nowhere/x.html")
    found = pktgen.analyze(small.runs[0].path, metrics="received")
    assert set(found.metrics["metric"]) == {"received"}
    with pytest.raises(pktgen.UsageError, match="no such metric"):
        found.value("nosuch")


def test_an_invalid_run_crosses_processes(small: pktgen.Sweep) -> None:
    back = pickle.loads(pickle.dumps(pktgen.InvalidRunError("why", small)))
    assert (str(back), back.code, back.sweep.path) == ("why", 1, small.path)
