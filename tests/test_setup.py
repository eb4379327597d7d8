"""scripts/setup on machines that lack something: it says what, and the cure, before anything is made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parent.parent / "scripts" / "setup"


def _machine(folder: Path, **programs: str) -> Path:
    """A PATH of its own with what every shell script may use, and the given programs as shell scripts."""
    folder.mkdir()
    for name in ("sh", "touch", "tail", "dirname", "mkdir"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, script in programs.items():
        path = folder / name.replace("_", ".")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return folder


def _setup(path: Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", SETUP, "env", ".done", "some-package"],
        cwd=cwd,
        env={"PATH": str(path), "HOME": str(cwd), **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


REAL = f'exec {sys.executable} "$@"'
OLD = 'case "$2" in *platform*) echo 3.9.2 ;; *) exit 1 ;; esac'
NO_VENV = f'case "$2" in *ensurepip*) exit 1 ;; *) {REAL} ;; esac'
SHIM = 'echo "pyenv: $0: command not found" >&2; exit 127'


@pytest.mark.parametrize(
    ("programs", "texts"),
    [
        ({}, ["found none", "3.11 to 3.14", "apt install python3 python3-venv"]),
        ({"python3": SHIM}, ["found none"]),
        ({"python3": OLD}, ["got python3 3.9.2", "3.11 to 3.14", "PYTHON="]),
        ({"python3": NO_VENV}, ["no venv module", f"apt install python3.{sys.version_info[1]}-venv"]),
    ],
)
def test_what_is_missing_is_named(programs: dict[str, str], texts: list[str], tmp_path: Path) -> None:
    ran = _setup(_machine(tmp_path / "bin", **programs), tmp_path)
    assert ran.returncode == 1
    for text in texts:
        assert text in ran.stderr
    assert not (tmp_path / "env").exists()


def test_a_shim_that_fails_and_an_old_python_are_passed_over(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    record = f'echo "$0" >>{asked}; {NO_VENV}'
    machine = _machine(tmp_path / "bin", python3=SHIM, python3_14=SHIM, python3_13=OLD, python3_12=record)
    ran = _setup(machine, tmp_path)
    assert f"{machine}/python3.12 has no venv module" in ran.stderr
    assert asked.exists()


def test_a_failed_installation_leaves_no_stamp_and_says_why(tmp_path: Path) -> None:
    environment = tmp_path / "env" / "bin"
    environment.mkdir(parents=True)
    python = environment / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *install*) echo "no route to the index" >&2; exit 1 ;; *) {REAL} ;; esac\n'
    )
    python.chmod(0o755)
    ran = _setup(_machine(tmp_path / "bin"), tmp_path)
    assert ran.returncode == 1
    assert "no route to the index" in ran.stderr
    assert "run the same command again" in ran.stderr
    assert not (tmp_path / "env" / ".done").exists()


def test_a_python_of_the_users_choice(tmp_path: Path) -> None:
    ran = _setup(_machine(tmp_path / "bin", mine=NO_VENV), tmp_path, PYTHON="mine")
    assert "/mine has no venv module" in ran.stderr


def test_it_is_plain_sh() -> None:
    text = SETUP.read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert os.access(SETUP, os.X_OK)
    assert "[[" not in text
