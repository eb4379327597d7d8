"""Which ids a corpus uses: reads all of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.agreement import tokenizer_of
from tokenriver.corpus import Corpus
from tokenriver.errors import InputError, LimitError
from tokenriver.roles import role_ids
from tokenriver.types import Int64, River, Tokenizer

MOST = 20
"""Most frequent ids that are named."""
LARGEST_TABLE = 1 << 24
"""Where no vocabulary is known, ids below it are counted one by one."""
SAMPLE = 1 << 16
"""Ids that show whether the bytes of ids are the sum of those of each."""


@dataclass(frozen=True, slots=True)
class VocabularyStats:
    """Use of ids in one split."""

    vocab_size: int | None
    used: int
    """Different ids."""
    largest: int
    once: int
    """Ids that occur once."""
    outside: int
    """Occurrences of ids outside the vocabulary."""
    most: Mapping[int, int]
    """Occurrences of the most frequent ids, those first."""
    special: int
    """Occurrences of bos, eos and pad ids; 0 where no tokenizer is known."""
    bytes_per_token: float | None
    """Decoded bytes by id, special ids left out; None without a tokenizer that says it."""


@dataclass(frozen=True, slots=True)
class ByteSizes:
    """How many bytes of text ids are: those of each, and `lead` less for every document."""

    of: Int64
    """By id; 0 for bos, eos and pad."""
    lead: int


def count_vocabulary(river: River, notes: list[str]) -> tuple[VocabularyStats, ByteSizes | None]:
    """Read all ids of a corpus: which are used, and the bytes of each where they are known. `notes` takes what could
    not be told."""
    if not isinstance(river, Corpus):
        raise InputError(f"ids: got them asked of a {type(river).__name__}, expected a corpus; leave ids out")
    size = river.vocab_size
    limit = size if size is not None else LARGEST_TABLE
    table, outside, largest = np.zeros(limit, np.int64), 0, 0
    for block in river.blocks(0, river.num_tokens):
        numbers = block.astype(np.int64)
        largest = max(largest, int(numbers.max()))
        inside = (numbers >= 0) & (numbers < limit)
        outside += len(block) - int(np.count_nonzero(inside))
        found = np.bincount(numbers[inside])
        table[: len(found)] += found
    order = np.argsort(-table, kind="stable")[:MOST]
    special = _special(river, limit)
    text = table.copy()
    text[special] = 0
    sizes = _sizes(river, np.flatnonzero(text), limit, notes)
    total = int(text.sum())
    stats = VocabularyStats(
        size,
        int(np.count_nonzero(table)),
        largest,
        int(np.count_nonzero(table == 1)),
        outside,
        {int(number): int(table[number]) for number in order if table[number]},
        int(table[special].sum()),
        (int((sizes.of * text).sum()) - sizes.lead * (river.num_documents or 0)) / total if sizes and total else None,
    )
    return stats, sizes if not outside else None


def _special(corpus: Corpus, limit: int) -> list[int]:
    """Ids of bos, eos and pad, by the manifest where it says them."""
    made_by = tokenizer_of(corpus) or corpus.tokenizer
    ids = [] if made_by is None else role_ids(made_by).values()
    return sorted({number for number in ids if number is not None and number < limit})


def _sizes(corpus: Corpus, used: Int64, limit: int, notes: list[str]) -> ByteSizes | None:
    """Bytes of each used id; not known for a tokenizer whose ids have others when they stand together."""
    tokenizer = corpus.tokenizer
    if tokenizer is None:
        notes.append("decoded bytes: no tokenizer is known")
        return None
    lead = _lead(corpus, tokenizer)
    within = getattr(tokenizer, "within", None) if lead is not None else None
    decode = within or tokenizer.decode_bytes
    try:
        sizes = np.zeros(limit, np.int64)
        sizes[used] = [len(decode([number])) for number in used.tolist()]
        sample = corpus.read(0, min(SAMPLE, corpus.num_tokens))
        sample = sample[np.isin(sample, used)]
        together = len(decode(sample))
    except LimitError as error:
        notes.append(f"decoded bytes: {error}")
        return None
    if int(sizes[sample].sum()) != together:
        notes.append("decoded bytes: the tokenizer's ids have other bytes together than each alone")
        return None
    return ByteSizes(sizes, (lead or 0) if within else 0)


def _lead(corpus: Corpus, tokenizer: Tokenizer) -> int | None:
    """Bytes that the tokenizer adds to each document; None where a document may be only a part of one."""
    whole = corpus.manifest is not None and corpus.manifest.options.get("cut") == "documents"
    lead = getattr(tokenizer, "lead", 0)
    return lead if whole and isinstance(lead, int) else None
