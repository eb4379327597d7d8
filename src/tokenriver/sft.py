"""Fine-tuning data -> a native corpus with loss masks, or the packed rows of the HDF5 project.

    report = tr.sft("train.jsonl", "corpus", template="plain", tokenizer="gpt2", val_fraction=0.01)

A document of the corpus is one conversation, so that packing="best_fit", overflow="drop" gives rows of whole ones.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import registry
from tokenriver.buildplan import BAD_ROWS_NAME, make_plan, stored_dtype
from tokenriver.chat import Chat, load_chat, template_facts
from tokenriver.conversing import Wanted, encode_records, selected
from tokenriver.corpus import Corpus, open_corpus
from tokenriver.defaults import TOKENIZER
from tokenriver.errors import InputError
from tokenriver.garbage import searched_seldom
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.limits import BadRows
from tokenriver.manifest import BUILD_FOLDER, Manifest, tokenizer_info
from tokenriver.packed import shuffled, write_packed
from tokenriver.spool import NAME, ExampleWriter, source_infos, write_examples
from tokenriver.tally import ListingTally
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import Int64, Json, Tokenizer

LIKE = "sft-hdf5"
OVERFLOW = ("drop", "truncate")
SHARES = (0.0, 0.5, 0.9, 0.99, 1.0)
DEV_FRACTION = 0.02


@dataclass(frozen=True, slots=True)
class SftReport:
    """What became of the records; `as_dict` is what --json prints."""

    path: Path
    splits: dict[str, dict[str, int]]
    """By split: ids, trained ids, examples; for packed rows also rows."""
    balance: dict[str, Any]
    """Rows by fate: read, bad and dropped by reason, kept."""
    lengths: dict[str, int]
    """Ids of an example, by quantile: "0", "0.5", "0.9", "0.99", "1"."""
    seq_len: int
    padding: float
    """Share of positions that are padding in rows of seq_len by best_fit, overflow "drop"; 0 for packed rows."""
    too_long: int
    """Examples that do not fit such a row."""
    complete_before: bool
    bad_rows: Path | None

    def as_dict(self) -> dict[str, Any]:
        listed = str(self.bad_rows) if self.bad_rows else None
        return {**asdict(self), "path": str(self.path), "bad_rows": listed}


@dataclass(frozen=True, slots=True)
class _Request:
    """Everything that was asked of one run."""

    out: Path
    inputs: list[InputFile]
    chat: Chat
    wanted: Wanted
    plan: dict[str, Any]
    limits: BadRows
    seq_len: int
    name: str
    shard_tokens: int | None
    val_fraction: float
    beside: bool
    """Do threads encode beside the calling one?"""


def sft(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    template: str = "plain",
    template_options: Json | None = None,
    tokenizer: str | Path | Tokenizer = TOKENIZER,
    shape: str = "auto",
    train: str = "all",
    reasoning: bool = True,
    max_length: int | None = None,
    overflow: str = "drop",
    val_fraction: float | None = None,
    like: str | None = None,
    seq_len: int = 2048,
    include: Sequence[str] = (),
    on_bad: str = "skip",
    max_bad: float = 0.01,
    name: str = NAME,
    shard_tokens: int | None = None,
    workers: int | None = None,
    search: Sequence[str | Path] = (),
) -> SftReport:
    """Make examples of the records in `inputs` (JSON lines, plain or packed, JSON arrays, Parquet) and write them to
    the folder `out`.

    `template` is a chat template by name or path; `template_options` are what one of a file reads beside the
    conversation, values of JSON, as {"enable_thinking": False}. `shape` is that of the records, or told by the fields
    of each input's first; `train` all assistant turns, or only the last; `reasoning`: is that trained too. An example
    of more than `max_length` ids is dropped or, with overflow "truncate", cut on the right, unless that leaves nothing
    to train on. `val_fraction` of the conversations, chosen by a hash, become the split val. `like="sft-hdf5"` writes
    sft_packed.h5 and sft_dev_packed.h5 instead: rows of seq_len ids. With `workers` 0 the calling thread does all; else
    three more read ahead and encode, where the fast encoder is used; it changes nothing of the result. Raises
    RiverError's children."""
    _check(max_length, overflow, like, val_fraction, workers)
    found = _tokenizer(tokenizer, search)
    chat = load_chat(template, found, train=train, reasoning=reasoning, variables=template_options)
    folder = Path(out).absolute()
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    sources = find_inputs(given, include=include, exclude=folder, arrays=True)
    longest = min(max_length or seq_len, seq_len) if like else max_length
    hashed = 0.0 if like else val_fraction or 0.0
    wanted = Wanted(shape, longest, overflow, hashed)
    options = {
        **asdict(wanted),
        **template_facts(chat, template, template_options),
        "train": train,
        "reasoning": reasoning,
    }
    options |= {"kind": "sft", "name": name, "shard_tokens": shard_tokens, "like": like}
    plan = {**options, "plans": [make_plan(sources, options, found).digest]}
    share = DEV_FRACTION if val_fraction is None else val_fraction
    limits = BadRows(on_bad, max_bad)
    request = _Request(folder, sources, chat, wanted, plan, limits, seq_len, name, shard_tokens, share, workers != 0)
    return _packed(request) if like else _native(request)


def _check(
    max_length: int | None, overflow: str, like: str | None, val_fraction: float | None, workers: int | None
) -> None:
    if overflow not in OVERFLOW:
        raise InputError(f"overflow: got {overflow!r}, expected one of {', '.join(OVERFLOW)}; choose one")
    if max_length is not None and max_length < 2:
        raise InputError(f"max_length: got {max_length}, expected at least 2; give a larger one")
    if like not in (None, LIKE):
        raise InputError(f"like: got {like!r}, expected {LIKE!r} or none; choose one")
    if workers is not None and workers < 0:
        raise InputError(f"workers: got {workers}, expected 0 or more; give 0 for one thread, or none")
    if val_fraction is not None and not 0 <= val_fraction < 1:
        raise InputError(f"val_fraction: got {val_fraction}, expected 0 or more and less than 1; give a share")


def _tokenizer(given: str | Path | Tokenizer, search: Sequence[str | Path]) -> Tokenizer:
    return load_tokenizer(given, search=tuple(map(Path, search))) if isinstance(given, str | Path) else given


def _fill(request: _Request, writer: ExampleWriter, tally: ListingTally) -> None:
    """Give all examples to a writer, and see that there are enough."""
    kept = 0
    with tally, searched_seldom():
        for examples in encode_records(request.inputs, request.chat, request.wanted, tally, beside=request.beside):
            for split, here in (("train", ~examples.held), ("val", examples.held)):
                records = examples.records[here]
                if len(records):
                    sources = np.full(len(records), examples.source, np.int32)
                    writer.add(split, selected(examples.batch, here), records, sources)
            kept += len(examples.records)
    tally.check(kept, request.inputs)


def _native(request: _Request) -> SftReport:
    out, tokenizer = request.out, request.chat.tokenizer
    dtype = stored_dtype(tokenizer.vocab_size)
    with write_examples(out, request.plan, dtype=dtype, name=request.name) as writer:
        complete = isinstance(writer, Manifest)
        if not isinstance(writer, Manifest):
            tally = ListingTally(out / BUILD_FOLDER / BAD_ROWS_NAME, request.limits)
            _fill(request, writer, tally)
            rows = [tally.rows[n] for n in range(len(request.inputs))]
            writer.commit(
                tokenizer=tokenizer_info(tokenizer),
                sources=source_infos(request.inputs, rows, tally.digests(request.inputs)),
                balance=tally.balance(),
                shard_tokens=request.shard_tokens,
                bad_rows=tally.path if tally.bad else None,
            )
    return _report(request, complete)


def _report(request: _Request, complete: bool) -> SftReport:
    corpus = open_corpus(request.out)
    assert corpus.manifest is not None, "it was just written"
    balance, counts = dict(corpus.manifest.balance), corpus.manifest.counts()
    trained = balance["ids"]["trained"]
    splits = {n: {"ids": c["ids"], "trained": trained[n], "examples": c["documents"]} for n, c in counts.items()}
    lengths = np.diff(corpus.doc_ends(), prepend=0)
    padding, too_long = _padding(corpus, lengths, request.seq_len)
    listed = request.out / BAD_ROWS_NAME if balance["bad_rows"] else None
    shown = quantiles(lengths)
    return SftReport(request.out, splits, balance, shown, request.seq_len, padding, too_long, complete, listed)


def _padding(corpus: Corpus, lengths: Int64, seq_len: int) -> tuple[float, int]:
    """(share of padding, examples that fit no row) in rows of whole examples."""
    fits = (lengths >= 2) & (lengths <= seq_len + 1)
    if not fits.any():
        return 0.0, len(lengths)
    rows = registry.load("packing", "best_fit").count_rows(*np.unique(lengths[fits], return_counts=True), seq_len)
    return 1 - float((lengths[fits] - 1).sum()) / (rows * seq_len), int((~fits).sum())


def quantiles(lengths: Int64) -> dict[str, int]:
    """The least length that at least so many of the examples do not exceed."""
    ordered = np.sort(lengths)
    places = [max(0, int(np.ceil(share * len(ordered))) - 1) for share in SHARES]
    return {f"{share:g}": int(ordered[place]) for share, place in zip(SHARES, places, strict=True)}


def _packed(request: _Request) -> SftReport:
    """The two files of packed rows."""
    out, tokenizer = request.out, request.chat.tokenizer
    with write_examples(out, request.plan, dtype=stored_dtype(tokenizer.vocab_size)) as writer:
        if isinstance(writer, Manifest):
            raise InputError(f"{out}: got a native corpus, expected a new folder for packed rows; choose another")
        tally = ListingTally(out / BUILD_FOLDER / BAD_ROWS_NAME, request.limits)
        _fill(request, writer, tally)
        flow = writer.finish()["train"]
        parts = shuffled(flow, request.seq_len, request.val_fraction)
        writer.publish(tally.path if tally.bad else None)
        splits = write_packed(out, flow, request.seq_len, parts)
    listed = out / BAD_ROWS_NAME if tally.bad else None
    lengths = quantiles(np.asarray(flow.lengths))
    return SftReport(out, splits, tally.balance(), lengths, request.seq_len, 0.0, 0, False, listed)
