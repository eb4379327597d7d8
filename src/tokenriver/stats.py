"""Numbers before the run: lengths of documents, and what each packing makes of them at some row lengths.

One pass over the document index gives everything but the vocabulary, which reads all ids and so has to be asked for.
The numbers of rows are those of the packings themselves (tests/laws/test_stats.py); only packings that are not named
here are planned for real.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenriver import registry
from tokenriver.corpus import Corpus, open_corpus
from tokenriver.errors import InputError, LimitError
from tokenriver.fertility import SourceStats, count_sources
from tokenriver.layout import whole
from tokenriver.lengths import Runs, count_lengths
from tokenriver.rounds import rows_per_sample
from tokenriver.rowcounts import BY_LENGTH, RowStats, Windows, count_windows, in_buckets, rows_by_length
from tokenriver.types import River
from tokenriver.vocabulary import ByteSizes, VocabularyStats, count_vocabulary

SEQ_LENS = (256, 512, 1024, 2048, 4096)
PACKINGS = ("concat", "document", "best_fit")
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Bin:
    """The documents of `low` to 2 * low - 1 ids (0: of none)."""

    low: int
    documents: int
    ids: int


@dataclass(frozen=True, slots=True)
class LengthStats:
    """Lengths of all documents, framing included."""

    shortest: int
    longest: int
    mean: float
    quantiles: Mapping[float, int]
    """By share of the documents: the least length that so many do not exceed."""
    histogram: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """What is known of a corpus before a run; None is what is not known, for the reason in `notes`."""

    num_tokens: int
    num_documents: int | None
    bytes_per_token: float | None
    """Text bytes by id, framing left out, over the whole build with all its splits, by its manifest."""
    lengths: LengthStats | None
    longer: Mapping[int, float]
    """By seq_len: the share of the ids that are in documents longer than a row (more than seq_len + 1 ids)."""
    rows: tuple[RowStats, ...]
    vocabulary: VocabularyStats | None
    notes: tuple[str, ...]
    sources: tuple[SourceStats, ...] = ()
    """By input or folder, if asked."""
    trained: int | None = None
    """Ids that are trained, of a corpus with a loss mask."""

    def as_dict(self) -> dict[str, Any]:
        """What --json prints."""
        data = asdict(self)
        data["longer"] = {str(seq_len): share for seq_len, share in self.longer.items()}
        data["rows"] = [row.as_dict() for row in self.rows]
        data["sources"] = [source.as_dict() for source in self.sources]
        if self.lengths is not None:
            data["lengths"]["quantiles"] = {f"{share:g}": n for share, n in self.lengths.quantiles.items()}
        return data


def stats(
    corpus: River | str | Path,
    *,
    seq_lens: Sequence[int] | None = None,
    packings: Sequence[str] = PACKINGS,
    buckets: int | None = None,
    ids: bool = False,
    by: str | None = None,
    split: str = "train",
) -> Stats:
    """Statistics of a corpus (open, or the path of one, of which `split` is taken).

    `seq_lens`: row lengths to compare (None: those of 256 to 4096 for which there are enough ids); `packings` by name,
    those by document with every overflow; `buckets` adds the rows of `document` in at most so many buckets; `ids` reads
    all ids and counts which are used; `by` "source" or "folder" counts what each input gave, with `ids` its bytes a
    token too. Raises InputError for options that make no sense, and for a corpus without an id."""
    river = open_corpus(corpus, split=split) if isinstance(corpus, str | Path) else corpus
    lengths = _seq_lens(river, seq_lens)
    _check_packings(packings)
    notes = list(river.assumptions) if isinstance(river, Corpus) else []
    packings = _stand_alone(river, packings, notes)
    windows, runs = Windows(lengths), None
    if river.num_documents is not None:
        runs = count_lengths(river, windows.see)
    else:
        notes.append("documents: got a corpus without bounds, so only rows of plain windows are known")
    fertility = _bytes_per_token(river, notes)
    rows = [row for seq_len in lengths for name in packings for row in _rows(river, runs, windows, (name, seq_len))]
    vocabulary, sizes = count_vocabulary(river, notes) if ids else (None, None)
    sources = _sources(river, by, sizes, notes) if by is not None else ()
    return Stats(
        river.num_tokens,
        river.num_documents,
        fertility,
        _length_stats(runs) if runs is not None and len(runs.lengths) else None,
        {n: runs.longer(n + 1).ids / river.num_tokens for n in lengths} if runs is not None else {},
        tuple(_with_buckets(rows, runs, buckets)),
        vocabulary,
        tuple(dict.fromkeys(notes)),
        sources,
        river.loss_mask.count() if isinstance(river, Corpus) and river.loss_mask is not None else None,
    )


def _sources(river: River, by: str, sizes: ByteSizes | None, notes: list[str]) -> tuple[SourceStats, ...]:
    if sizes is None:
        notes.append(f"bytes a token of each {by}: not known without the bytes of ids (--ids reads them)")
    return count_sources(river, by, sizes)


def _seq_lens(river: River, asked: Sequence[int] | None) -> tuple[int, ...]:
    """What was asked for, else those of SEQ_LENS for which there is a window, else the longest that has one."""
    if river.num_tokens < 2:
        raise InputError(f"corpus: got {river.num_tokens} ids, expected at least the 2 of an input and its target")
    if asked is None:
        return tuple(seq_len for seq_len in SEQ_LENS if seq_len < river.num_tokens) or (river.num_tokens - 1,)
    if not asked:
        raise InputError("seq_lens: got none, expected at least one row length; leave it out for the usual ones")
    for seq_len in asked:
        whole("seq_len", seq_len, 1)
    return tuple(dict.fromkeys(int(seq_len) for seq_len in asked))


def _check_packings(packings: Sequence[str]) -> None:
    known = registry.names("packing")
    for name in packings:
        if name not in known and "." not in name and name not in BY_LENGTH:
            raise InputError(f"packings: got {name!r}, expected some of {', '.join(sorted(known))}")


def _stand_alone(river: River, packings: Sequence[str], notes: list[str]) -> Sequence[str]:
    """The packings; none for a corpus whose documents stay together, which no packing lays into rows."""
    samples = rows_per_sample(river.manifest.options) if isinstance(river, Corpus) and river.manifest else 1
    if samples == 1:
        return packings
    notes.append(f"rows: {samples} documents make a sample, so no packing has rows of them; PairLoader reads them")
    return ()


def _rows(river: River, runs: Runs | None, windows: Windows, asked: tuple[str, int]) -> list[RowStats]:
    """The rows of one packing at one row length, by each overflow that it has; none where they need bounds that the
    corpus does not have."""
    name, seq_len = asked
    if name == "concat":
        return [count_windows(river, seq_len, windows.split[seq_len] if runs is not None else None)]
    if name in BY_LENGTH:
        if runs is None:
            return []
        return [rows_by_length(runs, river.num_tokens, (name, overflow, seq_len)) for overflow in BY_LENGTH[name]]
    return [_planned(river, name, seq_len)]


def _with_buckets(rows: Sequence[RowStats], runs: Runs | None, buckets: int | None) -> Iterator[RowStats]:
    """The rows, and behind each kind of `document` the same in buckets."""
    most = None if buckets is None else whole("buckets", buckets, 1)
    for row in rows:
        yield row
        if most is not None and runs is not None and row.packing == "document":
            yield in_buckets(runs, row, most)


def _planned(river: River, name: str, seq_len: int) -> RowStats:
    """The rows of any other packing: it is planned, and counted."""
    try:
        rows = registry.load("packing", name).pack(river, seq_len=seq_len)
    except LimitError:
        lost = {"river": river.num_tokens, "served": 0, "unused": river.num_tokens}
        return RowStats(seq_len, name, "", 0, 0, 0, lost, None, None)
    padding = len(rows) * seq_len - rows.num_targets
    return RowStats(seq_len, name, "", len(rows), rows.num_targets, padding, dict(rows.balance), None, None)


def _length_stats(runs: Runs) -> LengthStats:
    return LengthStats(
        int(runs.lengths[0]),
        int(runs.lengths[-1]),
        runs.ids / runs.documents,
        {share: runs.quantile(share) for share in QUANTILES},
        tuple(Bin(*row) for row in runs.histogram()),
    )


def _bytes_per_token(river: River, notes: list[str]) -> float | None:
    """By the manifest of a build; a note says why it is not known."""
    manifest = river.manifest if isinstance(river, Corpus) else None
    balance: Mapping[str, Any] = manifest.balance if manifest is not None else {}
    text, ids = balance.get("text_bytes"), balance.get("ids")
    made = ids.get("text") if isinstance(ids, Mapping) else None
    if isinstance(text, int) and isinstance(made, int) and text > 0 and made > 0:
        return text / made
    notes.append("bytes a token: the corpus does not say how much text it was built from")
    return None
