"""The one place that knows the environment: the launcher's rank, where caches lie, how remote stores are reached.

It comes first in a build, before its workers are started, and so imports next to nothing."""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import tokenriver
from tokenriver.errors import InputError, RiverError

if TYPE_CHECKING:
    from tokenriver.corpus import Corpus
    from tokenriver.wire import Access


def rank_and_world_size(
    rank: int | None, world_size: int | None, environment: Mapping[str, str] = os.environ
) -> tuple[int, int]:
    """What was given on the command line, else RANK and WORLD_SIZE as torchrun sets them, else (0, 1)."""
    world_size = _number("WORLD_SIZE", environment, 1) if world_size is None else world_size
    rank = _number("RANK", environment, 0) if rank is None else rank
    if not 0 <= rank < world_size:
        raise InputError(f"--rank: got {rank} of --world-size {world_size}, expected 0 to {world_size - 1}")
    return rank, world_size


def _number(name: str, environment: Mapping[str, str], default: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal():
        raise InputError(f"{name}: got {text!r} in the environment, expected a number; unset it or set a number")
    return int(text)


def tokenizer_folders() -> list[Path]:
    """The usual local caches of tokenizers, those that the environment names first."""
    found: list[Path] = importlib.import_module("tokenriver.tokenizer").cache_folders(os.environ)
    return found


def one_thread() -> None:
    """Ask the linear algebra below numpy for no threads of its own: nothing here multiplies matrices, and starting
    them costs a tenth of a second."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def large_pages() -> None:
    """Ask for the memory of processes that are started from now on in pages of 2 MiB, where the C library and the
    system can. The workers of a build look things up all over 100 MB of tables and caches: with fewer pages the
    processor finds them faster, which saves 15 % of the encoder's time."""
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")


def open_corpus(path: Path, split: str = "train", tokenizer: str | None = None) -> "Corpus":
    """A corpus whose tokenizer is the one given, or is also looked for in the usual caches."""
    try:
        return tokenriver.open_corpus(path, split=split, tokenizer=tokenizer, tokenizer_search=tokenizer_folders())
    except RiverError:
        if importlib.import_module("tokenriver.choices").choice_format(path):  # looked at only when all else failed
            raise InputError(
                f"{path}: got multiple-choice examples, expected a corpus; show them with tokenriver choice, read them "
                "with EvalLoader"
            ) from None
        raise


def cache_folder(given: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Where downloads are kept: as given on the command line, else TOKENRIVER_CACHE, else the user's cache folder."""
    if given is not None:
        return given
    named = environment.get("TOKENRIVER_CACHE", "")
    usual = environment.get("XDG_CACHE_HOME", "")
    return Path(named) if named else Path(usual or Path.home() / ".cache") / "tokenriver"


def access(environment: Mapping[str, str] = os.environ) -> "Access":
    """How remote stores are reached: proxies by their usual variables, HF_ENDPOINT, and the Hub's token from HF_TOKEN
    or from where its own login leaves it."""
    home = Path(environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    file = Path(environment.get("HF_TOKEN_PATH") or home / "token")
    token = environment.get("HF_TOKEN", "").strip()
    if not token and file.is_file():
        token = file.read_text(encoding="utf-8", errors="replace").strip()
    made = importlib.import_module("tokenriver.wire").Access
    endpoint = environment.get("HF_ENDPOINT", "").strip() or made().endpoint
    found: Access = made(trust_env=True, token=token or None, endpoint=endpoint)
    return found
