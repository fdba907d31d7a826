"""What the tests share: a folder of their own, and one small sweep."""

from pathlib import Path

import pytest

import pktgen

#: Two variants at one rate, two seeds, short.
SMALL = {"seeds": "1..2", "updates": 20, "axes": {"topology.rate": ["20Gbps"]}, "progress": False}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go below the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> pktgen.Sweep:
    """A sweep that tests read and do not change."""
    return pktgen.run("olaf/table1", out=tmp_path_factory.mktemp("small") / "sweep", **SMALL)
