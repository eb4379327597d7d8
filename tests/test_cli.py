"""The door: what is loaded, what is said, and the exit code, whatever a command does."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import tokenriver
from tokenriver import cli, registry
from tokenriver.errors import LimitError

COMMANDS = registry.names("commands")


def _stand_in(monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> None:
    """Let `tokenriver verify` do something else."""
    monkeypatch.setattr(registry, "load", lambda kind, name: SimpleNamespace(run=run))


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "--help")
    assert ran.code == 0
    shown = [line.strip("│ ").split()[0] for line in ran.out.splitlines() if line.startswith("│ ") and line[2] != " "]
    assert [name for name in shown if name in COMMANDS] == [name for name in cli.ORDER if name in COMMANDS]
    assert set(COMMANDS) <= set(shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_one_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, name, "--help")
    assert ran.code == 0
    assert ran.out.count("Example:") == 1
    assert f"tokenriver {name}" in ran.out.partition("Example:")[2]
    headline = " ".join(cli._headline(name).split())
    assert headline in " ".join(ran.out.split())


@pytest.mark.parametrize(("words", "code"), [([], 2), (["bulid"], 2), (["--version"], 0), (["-h"], 0), (["--no"], 2)])
def test_usage(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert tokenriver(capsys, *words).code == code


def _fail(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (LimitError("a: b: got 1, expected 2; do c"), 1, "error: a: b: got 1, expected 2; do c"),
        (PermissionError(13, "Permission denied", "/x"), 1, "error: /x: Permission denied"),
        (ZeroDivisionError("by zero"), 1, "error: unexpected ZeroDivisionError: by zero; run `tokenriver --traceback"),
        (MemoryError(), 1, "error: unexpected MemoryError; run"),
        (KeyboardInterrupt(), 130, "stopped: the same command goes on where this one was"),
    ],
)
def test_failures_are_one_line(
    error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _stand_in(monkeypatch, _fail(error))
    ran = tokenriver(capsys, "verify")
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert ran.err.startswith(text)


def test_traceback_is_there_for_who_asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _stand_in(monkeypatch, _fail(ZeroDivisionError("by zero")))
    ran = tokenriver(capsys, "--traceback", "verify")
    assert ran.code == 1
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("error: unexpected ZeroDivisionError")


def test_warnings_go_to_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _stand_in(monkeypatch, lambda: warnings.warn("the tokenizer is not here", stacklevel=1))
    ran = tokenriver(capsys, "verify")
    assert (ran.code, ran.out, ran.err) == (0, "", "warning: the tokenizer is not here\n")


def test_a_reader_that_goes_away(small_text: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tokenriver", "build", str(small_text), "-o", str(tmp_path / "c")]
    subprocess.run([*command, "--tokenizer", "byte"], check=True, capture_output=True)
    words = ["batches", str(tmp_path / "c"), "--seq-len", "64", "--batch-size", "64", "--steps", "200"]
    with subprocess.Popen(
        [sys.executable, "-m", "tokenriver", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_control_c_says_how_to_go_on(large_text: Path, tmp_path: Path) -> None:
    out = tmp_path / "c"
    words = ["build", str(large_text), "-o", str(out), "--tokenizer", "byte", "--workers", "1", "--unit-bytes", "50k"]
    with subprocess.Popen(
        [sys.executable, "-m", "tokenriver", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        while process.poll() is None and not list(out.glob(".build/**/*.receipt")):
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGINT)
        said, told = process.communicate()
    assert (process.returncode, said) == (130, "")
    assert told.startswith("stopped: ")
    assert told.count("\n") == 1
    done = subprocess.run([sys.executable, "-m", "tokenriver", *words, "--json"], check=True, capture_output=True)
    assert b'"resumed": 0' not in done.stdout


@pytest.fixture
def small_text(tmp_path: Path) -> Path:
    path = tmp_path / "small.txt"
    path.write_text("some words for a small corpus\n" * 1000)
    return path


@pytest.fixture
def large_text(tmp_path: Path) -> Path:
    path = tmp_path / "large.jsonl"
    path.write_text("".join(f'{{"text": "line {n} of {n * n} words and {n % 97} more"}}\n' for n in range(80_000)))
    return path
