"""Seeds are read as they should be, a short fuzzing of each parser finds nothing, the fuzzer finds what is there."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from attacks import fuzzing
from attacks.mutations import mutate
from fuzz_parsers import PARSERS

RUNS = 150


def test_every_parser_has_seeds_that_are_read() -> None:
    for parser, read in PARSERS.items():
        outcomes = [fuzzing.judge(read, seed) for seed in fuzzing.seeds(parser) if "found" not in seed.name]
        assert outcomes, parser
        assert set(outcomes) == {"read"}, parser


def test_what_was_found_is_found_no_more() -> None:
    for parser, read in PARSERS.items():
        for seed in fuzzing.seeds(parser):
            if "found" in seed.name:
                fuzzing.judge(read, seed)


@pytest.mark.parametrize("parser", PARSERS)
def test_a_short_run_finds_nothing(parser: str) -> None:
    found, text = fuzzing.fuzz(parser, ["--runs", str(RUNS)])
    assert found is None, text
    assert f"{parser}: {RUNS} readings" in text


PLANTED = '''
"""A parser with faults that only some files reach."""
import os, time
from pathlib import Path
from tokenriver.errors import FormatError


def read(folder: Path) -> None:
    data = (folder / "a.bin").read_bytes()
    if len(data) < 8:
        raise FormatError(f"{folder}: size: got {len(data)} bytes, expected 8")
    if data[0] != 0x80:
        raise FormatError(f"{folder}: byte 0: got {data[0]}, expected 128")
    if data[5] != 0x7F:
        raise FormatError(f"{folder}: byte 5: got {data[5]}, expected 127")
    FAULT
'''
FAULTS = {
    "raise IndexError('planted')": "IndexError: planted",
    "while True: pass": "Hang: after",
    "bytearray(1 << 34)": "MemoryError",
    "os.abort()": "exit code -6",
    "raise FormatError('long ' * 3000)": "a message of 15000 characters",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fuzzer_finds_what_is_there(fault: str, tmp_path: Path) -> None:
    """Two bytes must be right for a fault to show: by chance one file in 65,536, by what is reached far sooner."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "planted.py").write_text(PLANTED.replace("FAULT", fault))
    run = (
        f"import sys; sys.path.insert(0, {str(package)!r}); import planted; from attacks import fuzzing\n"
        f"fuzzing.SOURCE, fuzzing.PATIENCE_S = {str(package)!r}, 0.5\n"
        "fuzzing.PARSERS = {'planted': planted.read}\n"
        "sys.exit(fuzzing.main())"
    )
    (tmp_path / "corpus" / "planted" / "usual").mkdir(parents=True)
    (tmp_path / "corpus" / "planted" / "usual" / "a.bin").write_bytes(bytes(16))
    work = tmp_path / "set"
    ran = subprocess.run(
        [sys.executable, "-c", run, "--runs", "20000", "--corpus", tmp_path / "corpus", "--child", work, "planted"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode != 0
    assert FAULTS[fault] in f"{ran.stderr} exit code {ran.returncode}"
    kept = fuzzing.keep("planted", work, tmp_path / "corpus")
    data = (kept / "a.bin").read_bytes()
    assert (data[0], data[5]) == (0x80, 0x7F)


def test_a_fuzzer_that_cannot_run_finds_nothing_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="unrecognized arguments"):
        fuzzing.fuzz("llmc", ["--walks", "3"], tmp_path)
    with pytest.raises(RuntimeError, match="no seeds"):
        fuzzing.fuzz("llmc", ["--runs", "3"], tmp_path)


def test_the_same_changes_every_time() -> None:
    files = {"a": bytes(range(100)), "b.json": b'{"a": [1, 2], "b": "c"}'}
    runs = [[mutate(files, files, chance) for _ in range(200)] for chance in (random.Random("x"), random.Random("x"))]
    assert runs[0] == runs[1]
    assert sum(changed != files for changed in runs[0]) > 150
