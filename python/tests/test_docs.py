"""The examples of docs/python.md run, one after the other; every public name is on the page."""

import re
from pathlib import Path

import pktgen

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_examples_run() -> None:
    text = PAGE.read_text()
    # The first one is what a reader sees before the imports.
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 10
    import warnings

    import polars as pl

    names: dict[str, object] = {"pl": pl}
    with warnings.catch_warnings():
        for block in blocks:
            exec(compile(block, "docs/python.md", "exec"), names)


def test_the_page_has_every_public_name() -> None:
    examples = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    missing = [name for name in pktgen.__all__ if name not in PAGE.read_text()]
    assert missing == []
    functions = [name for name in pktgen.__all__ if name[0].islower()]
    assert [name for name in functions if f"pktgen.{name}(" not in examples] == []
    methods = ["metrics", "report", "stream", "select", "run", "query", "compare", "judgements", "value"]
    assert [name for name in methods if not re.search(rf"\w\.{name}\(", examples)] == []
    for owner in (pktgen.Sweep, pktgen.Run, pktgen.Comparison, pktgen.Analysis):
        public = [name for name in vars(owner) if not name.startswith("_")]
        assert [name for name in public if name not in PAGE.read_text()] == [], owner
