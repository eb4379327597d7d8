"""Where the reference files made by the original tools lie; the one legal skip of the suite is their absence."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("TOKENRIVER_GOLDEN") or ROOT.parent / "shared" / "golden")


def golden(name: str = "") -> Path:
    """Path of a reference file or folder ("llmc/mt19937.json"); skips the calling test where the set is absent."""
    path = FOLDER / name
    if not FOLDER.is_dir():
        pytest.skip(f"no reference files at {FOLDER}; set TOKENRIVER_GOLDEN to the folder that holds them")
    if not path.exists():
        raise FileNotFoundError(f"{path}: the set of reference files has no {name!r}")
    return path
