"""Kill a build in the middle, run it again, and compare every byte with the build that was left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenriver
from tokenriver.digests import sha256_file
from tokenriver.errors import RiverError
from tokenriver.files import list_folder, remove_folder
from tokenriver.manifest import BUILD_FOLDER, MANIFEST_NAME

RECEIPTS = 2
RECEIPT = ".receipt"
TRIES = 5
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Crash:
    """What was seen."""

    receipts: int
    """Units whose receipt was there after the kill."""
    refusal: str
    """What opening the half-built corpus said; "" would mean that it opened."""
    units: int
    resumed: int
    """Units of the rerun, and those of them that it took over from the killed build."""
    seconds: float
    files: int
    different: tuple[str, ...]
    """Files that differ from the build that was left alone."""

    @property
    def passed(self) -> bool:
        return bool(self.refusal) and not self.different


def kill_and_rerun(command: Sequence[str], out: Path, reference: Path) -> Crash:
    """Run `tokenriver *command -o out` in a process group of its own, kill the group with SIGKILL at its second
    receipt, run it again to the end and compare the folder with `reference`."""
    words = [sys.executable, "-m", "tokenriver", *command, "-o", str(out), "--json"]
    for _ in range(TRIES):
        clear(out)
        receipts = _run_until_killed(words, out)
        if receipts:
            break
    else:
        raise RiverError(f"{out}: the build was done before the signal came in {TRIES} tries; try a larger --megabytes")
    refusal = ""
    try:
        tokenriver.open_corpus(out)
    except RiverError as error:
        refusal = str(error)
    begin = time.perf_counter()
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if again.returncode:
        raise RiverError(f"{out}: the rerun failed: {again.stderr.strip()}")
    told = json.loads(again.stdout)
    different = tuple(_differences(out, reference))
    return Crash(receipts, refusal, told["units"], told["resumed"], seconds, len(list_folder(out)), different)


def clear(folder: Path) -> None:
    """Remove a corpus of the demo's own, finished or not."""
    remove_folder(folder / BUILD_FOLDER)
    remove_folder(folder)


def _run_until_killed(words: Sequence[str], out: Path) -> int:
    """Receipts that the killed build left; 0 if it ended before the signal."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and _receipts(out) < RECEIPTS and time.monotonic() < deadline:
        time.sleep(0.002)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return 0 if (out / MANIFEST_NAME).exists() else _receipts(out)


def _receipts(out: Path) -> int:
    folder = out / BUILD_FOLDER
    return sum(name.endswith(RECEIPT) for name in os.listdir(folder)) if folder.is_dir() else 0


def _differences(out: Path, reference: Path) -> list[str]:
    names = {folder: set(list_folder(folder)) for folder in (out, reference)}
    missing = names[out] ^ names[reference]
    both = names[out] & names[reference]
    return sorted(missing | {name for name in both if sha256_file(out / name) != sha256_file(reference / name)})
