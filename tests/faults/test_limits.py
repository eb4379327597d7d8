"""Real limits of the operating system, on real builds of the command line: no bus error, one line, and resumable."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tokenriver
from small_builds import files_of, some_texts, write_rows

Ran = subprocess.CompletedProcess[str]
SCRIPT = """
import resource, sys
limit, size = getattr(resource, sys.argv[1]), int(sys.argv[2])
if size:
    resource.setrlimit(limit, (size, size))
from tokenriver import cli
cli.main(sys.argv[3:])
"""


def run(inputs: Path, out: Path, *words: str, limit: str = "RLIMIT_FSIZE", size: int = 0) -> Ran:
    """The command line under a limit of the operating system; none if size is 0."""
    command = [sys.executable, "-c", SCRIPT, limit, str(size), "build", str(inputs), "-o", str(out), "--json"]
    command += ["--tokenizer", "byte", "--unit-bytes", "4096", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
@pytest.mark.parametrize("size", [3000, 20_000])
def test_files_that_may_not_grow(tmp_path: Path, workers: tuple[str, ...], size: int) -> None:
    """R045: a limit of the parts, and one of the shard alone, which is written in the kernel."""
    (tmp_path / "in").mkdir()
    rows = write_rows(tmp_path / "in" / "rows.jsonl", some_texts(300))
    before = hashlib.sha256(rows.read_bytes()).hexdigest()
    ran = run(tmp_path / "in", tmp_path / "out", *workers, size=size)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    assert "cannot write: File too large; free space (or raise the limit) and run the same command again" in ran.stderr
    assert str(tmp_path / "out") in ran.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()
    again = run(tmp_path / "in", tmp_path / "out", *workers)
    told = json.loads(again.stdout)
    assert told["resumed"] == (told["units"] if size == 20_000 else 0)
    assert run(tmp_path / "in", tmp_path / "undisturbed").returncode == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")
    assert hashlib.sha256(rows.read_bytes()).hexdigest() == before
    assert tokenriver.verify(tmp_path / "out") == []


def test_few_descriptors(tmp_path: Path) -> None:
    """A thousand small inputs and forty shards under a low limit of open files."""
    (tmp_path / "in").mkdir()
    for number in range(1000):
        write_rows(tmp_path / "in" / f"{number}.jsonl", [f"text {number}"])
    ran = run(tmp_path / "in", tmp_path / "out", "--shard-tokens", "300", limit="RLIMIT_NOFILE", size=40)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["splits"]["train"]["shards"] >= 30
