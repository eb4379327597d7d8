"""scripts/peers without what it needs says so, and how to get it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "peers"
LISTS = sorted((ROOT / "tests" / "interop" / "peers" / "requirements").glob("*.txt"))


def _environment(folder: Path, packages: Path) -> Path:
    """A folder that answers as a virtual environment whose packages lie in `packages`."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho {packages}\n")
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize("given", ["nowhere", "without-torch"])
def test_without_an_environment_with_torch_nothing_is_made(given: str, tmp_path: Path) -> None:
    environment = tmp_path / given
    if given != "nowhere":
        _environment(environment, tmp_path / "packages")
    ran = subprocess.run([SCRIPT, environment], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert f"peers: {environment}: got no" in ran.stderr
    assert "run: make test-all" in ran.stderr


def test_it_is_plain_sh() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert os.access(SCRIPT, os.X_OK)
    assert "[[" not in text


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_package_is_pinned_and_every_peer_has_a_program(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split()
    assert lines == sorted(lines, key=str.lower)
    assert all(line.count("==") == 1 for line in lines)
    assert (path.parent.parent / f"peer_{path.stem}.py").is_file()
    table = (path.parent.parent / "run.py").read_text(encoding="utf-8")
    assert f'    "{path.stem}": (' in table
