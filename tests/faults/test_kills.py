"""Real SIGKILLs of a whole build (command line, two workers, real fsync) at moments drawn from a fixed seed. The same
command is given again and again until it is done: nothing torn is ever readable, nothing finished is done twice, the
inputs are as they were, and the corpus has the bytes of the build that nobody killed."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import zstandard

import tokenriver
from small_builds import corpus_files, files_of, some_texts, write_rows
from tokenriver.errors import RiverError

PATIENCE = 120.0


def command(inputs: Path, out: Path, *more: str) -> list[str]:
    words = ["build", str(inputs), "-o", str(out), "--tokenizer", "byte", "--workers", "2", "--json", *more]
    return [sys.executable, "-m", "tokenriver", *words]


@dataclass
class Campaign:
    """Kills of one build, one after another, over as many builds as it takes."""

    inputs: Path
    folder: Path
    options: tuple[str, ...]
    dice: random.Random
    kills: int = 0
    completed: int = 0
    at: list[str] = field(default_factory=list)
    """What there was of the build at each kill."""

    def run(self, kills: int) -> None:
        undisturbed = self.folder / "undisturbed"
        subprocess.run(command(self.inputs, undisturbed, *self.options), check=True, stdout=subprocess.DEVNULL)
        expected, hashes = files_of(undisturbed), _hashes(self.inputs)
        while self.kills < kills:
            out = self.folder / f"corpus{self.completed}"
            self._to_the_end(out, kills, expected)
            self.completed += 1
            assert files_of(out) == expected
            assert tokenriver.verify(out) == []
            assert _hashes(self.inputs) == hashes

    def _to_the_end(self, out: Path, kills: int, expected: dict[str, bytes]) -> None:
        done: set[str] = set()
        resumed = 0
        while True:
            told = self._once(out, self._moment(out) if self.kills < kills else lambda: False)
            if told is not None:
                assert told["complete_before"] or told["resumed"] >= len(done)
                return
            self.kills += 1
            now = _receipts(out)
            committed = (out / "manifest.json").exists()
            assert committed or now >= done, "a finished unit is gone"
            resumed, done = len(now), now
            self.at.append("manifest" if committed else f"{resumed} receipts")
            _check(out, expected)

    def _moment(self, out: Path) -> Callable[[], bool]:
        """When to kill: a while after the start, after some more receipts, or when a shard or the manifest appears."""
        delay, start = self.dice.uniform(0.0, 0.6), time.monotonic()
        kind = self.dice.choice(["time", "units", "units", "units", "shard", "manifest"])
        if kind == "time":
            return lambda: time.monotonic() - start > delay
        if kind == "units":
            wanted = len(_receipts(out)) + self.dice.randint(1, 8)
            return lambda: len(_receipts(out)) >= wanted
        name = {"shard": "tokens_*.bin", "manifest": "manifest.json"}[kind]
        return lambda: any(out.glob(name)) or any(out.glob(f".{name}.tmp"))

    def _once(self, out: Path, moment: Callable[[], bool]) -> dict[str, int] | None:
        """Run until done, or kill the group at the moment and give None. Its standard error ends only when the last
        worker is gone."""
        process = subprocess.Popen(
            command(self.inputs, out, *self.options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE
        pause = self.dice.uniform(0.0, 0.02)
        while process.poll() is None and time.monotonic() < deadline:
            if moment():
                time.sleep(pause)
                os.killpg(process.pid, signal.SIGKILL)
                break
            time.sleep(0.001)
        said, complained = process.communicate(timeout=PATIENCE)
        if process.returncode == -signal.SIGKILL:
            return None
        assert process.returncode == 0, complained.decode()
        told: dict[str, int] = json.loads(said)
        return told


def _receipts(out: Path) -> set[str]:
    """Names of the receipts; the build may remove their folder at any moment."""
    with suppress(FileNotFoundError):
        return {name for name in os.listdir(out / ".build") if name.endswith(".receipt")}
    return set()


def _hashes(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files_of(folder).items()}


def _check(out: Path, expected: dict[str, bytes]) -> None:
    if (out / "manifest.json").exists():
        assert corpus_files(out).items() >= {k: v for k, v in expected.items() if not k.startswith(".")}.items()
        tokenriver.open_corpus(out).read(0, 1)
        return
    with pytest.raises(RiverError):
        tokenriver.open_corpus(out)


def many_files(folder: Path) -> Path:
    for number in range(6):
        path = folder / f"part-{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_rows(path, some_texts(70, start=100 * number))
    return folder


def one_archive(folder: Path) -> Path:
    folder.mkdir(parents=True)
    rows = write_rows(folder / "huge.jsonl", some_texts(420))
    (folder / "huge.jsonl.zst").write_bytes(zstandard.compress(rows.read_bytes()))
    rows.unlink()
    return folder


@pytest.mark.parametrize(("make", "seed", "split"), [(many_files, 1, "0"), (one_archive, 2, "0.1")])
def test_twenty_five_kills(tmp_path: Path, make: Callable[[Path], Path], seed: int, split: str) -> None:
    """Without a validation split shards are begun while units are being done."""
    campaign = _campaign(tmp_path, make, seed, "--val-fraction", split)
    campaign.run(25)
    assert campaign.kills == 25
    assert sum(what.endswith("receipts") and not what.startswith("0 ") for what in campaign.at) >= 8


def many_files_with_duplicates(folder: Path) -> Path:
    many_files(folder)
    write_rows(folder / "part-2b.jsonl", [*some_texts(70, start=220), *some_texts(20, start=900), *some_texts(50)])
    return folder


def test_four_kills_with_filters(tmp_path: Path) -> None:
    """Duplicates are left out at the end, after which the units that a rerun begins with are still the first ones."""
    words = ("--filter", "exact-dedup", "--filter", "length:min_chars=30", "--max-document-tokens", "150")
    campaign = _campaign(tmp_path, many_files_with_duplicates, 3, *words)
    campaign.run(4)
    manifest = tokenriver.open_corpus(tmp_path / "undisturbed").manifest
    assert manifest is not None
    filtered = manifest.balance["documents"]["filtered"]
    assert set(filtered) == {"duplicate", "max_document_tokens", "min_chars"}
    assert min(filtered.values()) >= 10


def _campaign(folder: Path, make: Callable[[Path], Path], seed: int, *words: str) -> Campaign:
    options = ("--unit-bytes", "2048", "--shard-tokens", "12000", *words)
    return Campaign(make(folder / "inputs"), folder, options, random.Random(seed))


def test_a_kill_of_the_parent_alone_leaves_nobody_at_work(tmp_path: Path) -> None:
    inputs = many_files(tmp_path / "inputs")
    words = command(inputs, tmp_path / "corpus", "--unit-bytes", "2048")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None and len(_receipts(tmp_path / "corpus")) < 2:
        time.sleep(0.001)
    process.kill()
    process.communicate(timeout=PATIENCE)  # the end of standard error: the last worker is gone
    assert process.returncode == -signal.SIGKILL
    left = files_of(tmp_path / "corpus")
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    assert len(left) > 2
    assert tokenriver.verify(tmp_path / "corpus") == []


def test_control_c_is_one_line_and_resumable(tmp_path: Path) -> None:
    inputs = many_files(tmp_path / "inputs")
    words = command(inputs, tmp_path / "corpus", "--unit-bytes", "2048")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    while process.poll() is None and len(_receipts(tmp_path / "corpus")) < 2:
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    _, complained = process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, None)
    assert b"Traceback" not in complained
    done = _receipts(tmp_path / "corpus")
    again = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    assert json.loads(again.stdout)["resumed"] >= len(done) >= 2
    assert tokenriver.verify(tmp_path / "corpus") == []
