"""What a loader's options come to: the river that is read, where its rows lie, and the order in which they come."""

from typing import Any

import numpy as np

from tokenriver import registry
from tokenriver.course import LARGEST
from tokenriver.errors import InputError
from tokenriver.mixing import MixedSampler, Mixture, mixed
from tokenriver.replaying import Replayed, replayed
from tokenriver.sampler import ORDERS, Sampler
from tokenriver.types import Packing, River


def lay_out(
    corpus: River | Mixture, packing: tuple[str, int, dict[str, Any]], order: str, sizes: tuple[int, int | None, int]
) -> tuple[River, Packing, Sampler | MixedSampler | Replayed]:
    """What is read, where its rows lie and in which order they come; `sizes` are global batch, micro batch (None: a
    rank's share) and world size."""
    if order not in ORDERS:
        if isinstance(corpus, Mixture):
            raise InputError(f"order: got {order!r} with a mixture, expected one of {', '.join(ORDERS)}; choose one")
        return corpus, *replayed(corpus, packing, order, sizes)
    name, seq_len, options = packing
    global_batch = sizes[0]
    pack = registry.load("packing", name).pack
    if not isinstance(corpus, Mixture):
        rows: Packing = pack(corpus, seq_len=seq_len, **options)
        return corpus, rows, Sampler(len(rows), global_batch=global_batch, seed=options["seed"], order=order)
    packings = tuple(pack(river, seq_len=seq_len, **options) for river in corpus.rivers)
    return mixed(corpus, packings, (order, options["seed"], global_batch))


def only_for(name: str, packing: str, wanted: str) -> None:
    if packing != wanted:
        raise InputError(f"{name}: got it with packing {packing!r}, expected {wanted!r}; leave it out")


def whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= LARGEST:
        raise InputError(f"{name}: got {value!r}, expected an integer from {least}; give one")
