"""Batches as Hugging Face's models take them, and the two conventions of labels kept apart.

    model(**to_huggingface(batch))                # targets go as shift_labels, which the loss takes as they are

`targets` (ours) and `shift_labels` are shifted already: position i holds what follows input i. `labels` (theirs) are
not: position i holds input i, and the model shifts. One given for the other trains on the wrong ids without an error;
`check_labels` finds it.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenriver.batch import Batch
from tokenriver.errors import InputError, MismatchError
from tokenriver.sequences import causal_blocks
from tokenriver.types import IGNORE, Bools, Int64

Integers = NDArray[np.integer[Any]]
CONVENTIONS = ("shift_labels", "labels")


T_co = TypeVar("T_co", covariant=True)


class Served(Protocol[T_co]):
    """A Batch, or a TorchBatch made with its sequences."""

    @property
    def input_ids(self) -> T_co: ...
    @property
    def targets(self) -> T_co: ...
    @property
    def position_ids(self) -> T_co | None: ...


def to_huggingface(batch: Served[T_co]) -> dict[str, T_co]:
    """input_ids, position_ids and shift_labels, (B, T) each, arrays or tensors as the batch has them. Positions start
    again in each document: with attention that reads them (flash attention without a mask) no text sees another."""
    positions = batch.position_ids
    if positions is None:
        raise InputError("batch: got one without position_ids, expected them; make it by to_torch(..., sequences=True)")
    return {"input_ids": batch.input_ids, "position_ids": positions, "shift_labels": batch.targets}


def attention_mask(batch: Batch) -> Bools:
    """(B, T, T) bool: may position i see position j? Those of its own sequence up to itself. For a model that wants a
    matrix; cu_seqlens and position_ids say the same in far less room."""
    return causal_blocks(batch.cu_seqlens.astype(np.int64), *batch.input_ids.shape)


def unshifted_labels(batch: Batch) -> tuple[Int64, int]:
    """(labels, lost): (B, T) int64 labels for a model that shifts them itself, and how many targets they cannot
    express, those of the last column. Nothing is predicted for the first position, so labels begin with -100."""
    targets = batch.targets
    labels = np.full(targets.shape, IGNORE, np.int64)
    labels[:, 1:] = targets[:, :-1]
    return labels, int(np.count_nonzero(targets[:, -1] != IGNORE))


def check_labels(inputs: Mapping[str, Integers]) -> None:
    """Are labels what their name says? Of input_ids, position_ids and either shift_labels or labels, (B, T) each;
    MismatchError at the first one that is another id than the convention has there."""
    given = [name for name in CONVENTIONS if name in inputs]
    if len(given) != 1:
        raise InputError(f"labels: got {given}, expected one of {' or '.join(CONVENTIONS)}")
    name = given[0]
    ids, positions, labels = (np.asarray(inputs[key]) for key in ("input_ids", "position_ids", name))
    if not ids.shape == positions.shape == labels.shape or ids.ndim != 2:
        raise InputError(f"{name}: got shapes {ids.shape}, {positions.shape}, {labels.shape}, expected one (B, T)")
    # of position i + 1, where it goes on with the sequence of position i: the first of one follows nothing
    column = slice(0, -1) if name == "shift_labels" else slice(1, None)
    found, wanted = labels[:, column], ids[:, 1:]
    wrong = (found != IGNORE) & (found != wanted) & (positions[:, 1:] != 0)
    if wrong.any():
        line, at = (int(places[0]) for places in np.nonzero(wrong))
        other = CONVENTIONS[name == CONVENTIONS[0]]
        raise MismatchError(
            f"{name}[{line}, {at + (name == 'labels')}]: got {int(found[line, at])}, expected "
            f"{int(wanted[line, at])}, the input at {at + 1}; were they made as {other}?"
        )
