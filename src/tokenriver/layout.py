"""What a loader's options come to: the river that is read, where its rows lie, and the order in which they come."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenriver import registry
from tokenriver.buckets import BucketOrder, lay_buckets
from tokenriver.course import LARGEST
from tokenriver.errors import FormatError, InputError, refuse_name
from tokenriver.lossmask import mask_of
from tokenriver.masks import Masks
from tokenriver.mixing import MixedSampler, Mixture, mixed
from tokenriver.replaying import Replayed, replayed
from tokenriver.rounds import rows_per_sample
from tokenriver.sampler import ORDERS, Sampler
from tokenriver.types import Packing, River

COMMON = ("seq_len", "overflow", "phase_shift", "seed")
"""Options that every packing has, by the loader's own names."""


def lay_out(
    corpus: River | Mixture, packing: tuple[str, int, dict[str, Any]], order: str, sizes: tuple[int, int | None, int]
) -> tuple[River, Packing, Sampler | MixedSampler | Replayed | BucketOrder]:
    """What is read, where its rows lie and in which order they come; `sizes` are global batch, micro batch (None: a
    rank's share) and world size."""
    refuse_name("corpus", corpus, "what open_corpus makes of it")
    for river in corpus.rivers if isinstance(corpus, Mixture) else (corpus,):
        refuse_samples(river)
    if order not in ORDERS:
        if isinstance(corpus, Mixture):
            raise InputError(f"order: got {order!r} with a mixture, expected one of {', '.join(ORDERS)}; choose one")
        return corpus, *replayed(corpus, packing, order, sizes)
    name, seq_len, options = packing
    global_batch = sizes[0]
    pack = registry.load("packing", name).pack
    if not isinstance(corpus, Mixture):
        rows: Packing = pack(corpus, seq_len=seq_len, **options)
        asked = getattr(rows, "buckets", None)
        if asked is not None:
            return corpus, rows, lay_buckets(rows, asked, global_batch, order, options["seed"])
        return corpus, rows, Sampler(len(rows), global_batch=global_batch, seed=options["seed"], order=order)
    packings = tuple(pack(river, seq_len=seq_len, **options) for river in corpus.rivers)
    if getattr(packings[0], "buckets", None) is not None:
        raise InputError(
            "buckets: got them with a mixture, whose quotas count rows, expected one corpus; leave them out"
        )
    return mixed(corpus, packings, (order, options["seed"], global_batch))


def refuse_samples(river: River) -> None:
    """InputError for a corpus whose documents stay together in samples, which windows or packed rows would mix up."""
    options = getattr(getattr(river, "manifest", None), "options", {})
    rows = rows_per_sample(options)
    if rows != 1:
        raise InputError(
            f"corpus: got one of kind {options.get('kind')!r}, {rows} documents a sample that stay together, expected "
            "documents that may stand alone; read it with PairLoader"
        )


def own_options(packing: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of one packing; InputError for a name that it does not have."""
    parameters = inspect.signature(registry.load("packing", packing).pack).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in COMMON]
    for name in given:
        if name not in known:
            expected = ", ".join(known) or "none: it has no options of its own"
            raise InputError(f"packing_options: got {name!r} for packing {packing!r}, expected {expected}")
    return dict(given)


def rows_a_step(global_batch: int | None, options: Mapping[str, Any]) -> int:
    """The rows of a step, or its most; without a number as many as a budget of positions can hold."""
    budget = options.get("max_tokens_per_batch")
    if global_batch is None and budget is not None:
        return whole("max_tokens_per_batch", budget, 1)
    return whole("global_batch", global_batch, 1)


def masks_of(corpus: River | Mixture, river: River, first: bool, eos: bool) -> Masks | None:
    """What is ignored of the river that is read; FormatError where it is not known where documents begin, InputError
    where it is not known which id ends them."""
    if first and river.num_documents is None:
        raise FormatError(
            "mask_first: got a corpus without document bounds, expected them; give eos_id when opening it"
        )
    ids = {getattr(each, "eos_id", None) for each in (corpus.rivers if isinstance(corpus, Mixture) else (corpus,))}
    if eos and (None in ids or len(ids) > 1):
        raise InputError(
            f"mask_eos: got {sorted(map(str, ids))} for the id that ends texts, expected one; give eos_id or a "
            "tokenizer when opening the corpus"
        )
    needed = first or eos or mask_of(river) is not None
    return Masks(river, first, ids.pop() if eos else None) if needed else None


def only_for(name: str, packing: str, wanted: str) -> None:
    if packing != wanted:
        raise InputError(f"{name}: got it with packing {packing!r}, expected {wanted!r}; leave it out")


def whole(name: str, value: object, least: int) -> int:
    """The value as a plain int; InputError for what is no integer from `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= LARGEST:
        raise InputError(f"{name}: got {value!r}, expected an integer from {least}; give one")
    return int(value)
