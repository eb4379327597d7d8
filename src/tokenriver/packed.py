"""The packed fine-tuning files of the HDF5 project: examples shuffled by numpy's generator of seed 42, laid end to end
and cut into rows, whatever lies in them; the first of the shuffled examples are the development set.

What is left behind the last whole row of each file is dropped, as there; the report counts it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tokenriver import registry
from tokenriver.errors import LimitError
from tokenriver.spool import SpoolFlow
from tokenriver.types import Bools, Ids

SEED = 42
NAMES = {"val": "sft_dev_packed.h5", "train": "sft_packed.h5"}


def shuffled(flow: SpoolFlow, seq_len: int, dev_fraction: float) -> dict[str, list[int]]:
    """By split the examples in their order; LimitError if they do not fill a row of either."""
    order = list(range(flow.num_documents))
    np.random.default_rng(SEED).shuffle(order)
    first = max(1, int(flow.num_documents * dev_fraction))
    parts = {"val": order[:first], "train": order[first:]}
    for split, some in parts.items():
        ids = int(flow.lengths[some].sum())
        if ids < seq_len:
            raise LimitError(
                f"{NAMES[split]}: got {ids} ids in {len(some)} examples, expected at least {seq_len}, one row; "
                "give more examples, a smaller seq_len or another val_fraction"
            )
    return parts


def write_packed(out: Path, flow: SpoolFlow, seq_len: int, parts: Mapping[str, list[int]]) -> dict[str, dict[str, int]]:
    """Write both files; by split: ids, trained ids, examples, rows, and ids that were dropped."""
    write = registry.load("formats", "hdf5").write_rows
    counts = {}
    for split, some in parts.items():
        ids = int(flow.lengths[some].sum())
        rows = ids // seq_len
        trained = write(out / NAMES[split], (rows, seq_len), _joined(flow, some))
        counts[split] = {"ids": rows * seq_len, "trained": trained, "examples": len(some), "rows": rows}
        counts[split]["dropped_ids"] = ids - rows * seq_len
    return counts


def _joined(flow: SpoolFlow, order: Sequence[int]) -> Iterator[tuple[Ids, Bools]]:
    """(ids, mask) of one example after another."""
    for number in order:
        yield flow.example(number)
