"""Compiled code with columns that do not fit together: filled rightly or refused, nothing around its outputs touched.

The slow tests compile it with sanitizers, which stop at the first byte read or written outside; and with one check
left out each time, which the same calls must find.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from attacks.columns import fuzz
from tokenriver import compiled

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = {
    "shifts": ("if (from >= 0 && from + (count << job->shifts) <= job->views[which].len)", "if (from >= 0)"),
    "before a view": ("if (from >= 0 && from", "if (from"),
    "far": ("position < FAR && ", ""),
    "inside": ("if (ids)\n        PyErr_SetString", "if (0)\n        PyErr_SetString"),
    "crossing": ("n > job->width - column", "0"),
    "unfinished": ("run == job->last && row == job->rows && !column", "run == job->last"),
    "part": ("job->first <= job->last && job->last <= held[STARTS].len / 8", "job->first <= job->last"),
    "dimensions": ("buffer->ndim == ndim && ", ""),
    "table rows": ("numbers[i] < 0 || numbers[i] >= known", "numbers[i] < 0"),
    "spans": ("*end > table->starts.shape[0] || *end > table->sizes.shape[0]", "*end > table->starts.shape[0]"),
    "room for runs": ("end - begin >= room - at", "0"),
    "widths": ("ids < tail || ids - tail > left", "ids < tail"),
    "room for sums": ("out->shape[0] <= sizes->shape[0]", "0"),
    "edges": ("at[i] < at[i - 1] || at[i] > cells", "at[i] < at[i - 1]"),
    "last target": ("int64_t skip = done < job->tail ? job->tail : 0;", "int64_t skip = 0;"),
    "padding": ("targets[j + job->tail] = IGNORE", "targets[j] = IGNORE"),
}


def test_random_columns() -> None:
    module = compiled.COMPILED
    assert module is not None, "no compiled code: install a C compiler (Debian: gcc), then run make clean test"
    counts = fuzz(module, 2000, 2)
    assert min(counts.values()) > 150, f"{counts}: too few calls were filled, or refused"


@pytest.mark.slow
def test_random_columns_under_sanitizers(tmp_path: Path) -> None:
    done = _fuzz_sanitized(_sanitized(ROOT / "compiled", tmp_path), 20_000)
    assert done.returncode == 0, done.stderr
    assert "runtime error" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_check_that_is_left_out_is_found(name: str, tmp_path: Path) -> None:
    source, (old, new) = tmp_path / "source", MUTANTS[name]
    shutil.copytree(ROOT / "compiled", source)
    texts = {path: path.read_text() for path in source.iterdir()}
    assert sum(text.count(old) for text in texts.values()) == 1
    for path, text in texts.items():
        path.write_text(text.replace(old, new))
    done = _fuzz_sanitized(_sanitized(source, tmp_path), 20_000)
    assert done.returncode != 0 or "runtime error" in done.stderr


def _sanitized(source: Path, folder: Path) -> Path:
    library = folder / "_compiled.so"
    flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-shared", "-fPIC"]
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(["gcc", *flags, include, str(source / "module.c"), "-o", str(library)], check=True)
    return library


def _fuzz_sanitized(library: Path, rounds: int) -> "subprocess.CompletedProcess[str]":
    name = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    environment = {**os.environ, "LD_PRELOAD": name.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, "-m", "attacks.columns", str(library), str(rounds)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT / "tests", timeout=300, check=False
    )
