"""tokenriver as one more entry of a harness of peers, which names this module in TR_EXTRA_ENTRIES.

The harness offers a module `registry` with `entry(kind, name, environment, **settings)` and runs each entry in the
environment's interpreter (TR_VENVS/ours, with tokenriver and torch). Nothing is imported before an entry runs, so that
the harness can list entries with the standard library alone.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ENVIRONMENT = "ours"


def build(cfg: SimpleNamespace) -> int:
    """Ids of a native corpus from cfg.zst, with cfg.nproc workers; unlike the peers', on disk after fsync."""
    tokenriver = importlib.import_module("tokenriver")
    return int(tokenriver.build(cfg.zst, Path(cfg.out, "corpus"), tokenizer="gpt2", workers=cfg.nproc).num_tokens)


def load(cfg: SimpleNamespace) -> Iterator[tuple[Any, Any]]:
    """x and y as torch tensors that share the batch's memory, shuffled, for ever."""
    return _batches(cfg.paths["bin"], cfg)


def scale(cfg: SimpleNamespace) -> Iterator[tuple[Any, Any]]:
    """As load, over the harness's sparse file of cfg.n ids."""
    return _batches(_sparse(cfg), cfg)


def _sparse(cfg: SimpleNamespace) -> str:
    return str(importlib.import_module("entries_scale").sparse(cfg))


def _names() -> None:
    """What the harness does before its clock starts, as it does for the peers' imports."""
    tokenriver = importlib.import_module("tokenriver")
    assert tokenriver.open_corpus
    assert tokenriver.Loader


def _batches(path: str, cfg: SimpleNamespace) -> Iterator[tuple[Any, Any]]:
    tokenriver, torch = importlib.import_module("tokenriver"), importlib.import_module("torch")
    corpus = tokenriver.open_corpus(path)
    loader = tokenriver.Loader(corpus, seq_len=cfg.T, global_batch=cfg.B, seed=1, epochs=None, prefetch=cfg.workers)
    for batch in loader:
        yield torch.from_numpy(batch.input_ids), torch.from_numpy(batch.targets)


def register() -> None:
    """Make the entries known to the harness."""
    harness = importlib.import_module("registry")
    harness.entry("build", "tokenriver", ENVIRONMENT, note="tr.build, native corpus, nproc workers, fsync")(build)
    harness.entry("load", "tokenriver", ENVIRONMENT, workers=(0, 2), note="Loader; workers is its prefetch")(load)
    vars(scale)["imports"] = _names
    harness.entry("scale", "tokenriver", ENVIRONMENT, prep=_sparse, note="Loader, prefetch 0")(scale)


register()
