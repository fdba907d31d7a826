"""Workflows, versions and licences of what is shipped (docs/install.md)."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_name_what_is_there(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    # YAML 1.1 reads the key `on` as a truth value.
    assert workflow["name"] == path.stem and workflow[True] and workflow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow["jobs"].values():
        text = "\n".join(step["run"] for step in job.get("steps", []) if "run" in step)
        assert [word for word in re.findall(r"\bscripts/[\w/.-]+", text) if not (ROOT / word).is_file()] == []
        assert [word for word in re.findall(r"\bmake ([a-z-]+)", text) if word not in targets] == []
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
    assert len(WORKFLOWS) == 5


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    assert "version" not in project and project["dynamic"] == ["version"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    for path in workspace["members"]:
        for manifest in ROOT.glob(f"{path}/Cargo.toml"):
            assert tomllib.loads(manifest.read_text())["package"]["version"] == {"workspace": True}, manifest
    version = subprocess.run([sys.executable, "-c", "import pktgen; print(pktgen.binary())"], check=True, capture_output=True, text=True).stdout
    said = subprocess.run([version.strip(), "--version"], check=True, capture_output=True, text=True).stdout
    assert said.split()[1] == workspace["package"]["version"]


def test_licence_expressions() -> None:
    spec = importlib.util.spec_from_file_location("third_party", ROOT / "scripts" / "third_party.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for good in ("MIT OR GPL-3.0", "(MIT OR GPL-3.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception", "Apache-2.0 / MIT"):
        assert module.allowed(good), good
    for bad in ("MIT AND GPL-3.0", "GPL-3.0-only", "(GPL-2.0 OR GPL-3.0) AND MIT", "GPL-2.0 WITH LLVM-exception"):
        assert not module.allowed(bad), bad


def test_licences_of_all_dependencies_are_known(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "third_party.py"
    done = subprocess.run([sys.executable, script, "x86_64-unknown-linux-gnu", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "THIRD-PARTY.txt").read_text()
    assert "polars-core" in text and "Redistribution and use" in text, "zstd's own licence is among the texts"
    edited = tmp_path / "third_party.py"
    edited.write_text(script.read_text().replace('"Unicode-3.0", ', "").replace("resolve().parent.parent", f"parent / {str(ROOT)!r}"))
    refused = subprocess.run([sys.executable, edited, "x86_64-unknown-linux-gnu", tmp_path], capture_output=True, text=True)
    assert refused.returncode == 1 and "licences that are not known" in refused.stderr and "Unicode-3.0" in refused.stderr
