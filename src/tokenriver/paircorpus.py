"""Pairs -> a corpus in which documents 2i and 2i + 1 are the chosen and the rejected row of sample i.

Each row is the whole conversation, its answer alone in the loss mask. Both rows are made of the same pieces up to the
answer, so that they have the same prompt to the id.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tokenriver.buildplan import BAD_ROWS_NAME, stored_dtype
from tokenriver.chat import Chat
from tokenriver.errors import InputError
from tokenriver.examplefile import Tally, check_left
from tokenriver.files import AtomicFile
from tokenriver.inputs import InputFile
from tokenriver.manifest import BUILD_FOLDER, Manifest, tokenizer_info
from tokenriver.messages import Message, Rendered
from tokenriver.spool import ExampleWriter, source_infos, write_examples
from tokenriver.types import Bools, Int64, TokenBatch

AT_ONCE = 512
"""Pairs that are encoded together."""
ROWS = 2
NOT_RENDERABLE, IDENTICAL_IDS = "not-renderable", "identical-ids"


class PairRow(NamedTuple):
    """A pair and where it came from."""

    prompt: str | Sequence[Mapping[str, str]]
    chosen: str
    rejected: str
    file: InputFile
    line: int
    held: bool
    """Does it belong to the validation split?"""


class _Made(NamedTuple):
    """A pair as two conversations."""

    row: PairRow
    sides: tuple[Rendered, Rendered]


def write_pairs(
    out: Path, chat: Chat, plan: Mapping[str, Any], files: Sequence[InputFile], rows: Iterable[PairRow], tally: Tally
) -> Manifest:
    """Write all pairs as the splits train and val of a corpus in the folder `out`, and into its manifest what became of
    the rows; a corpus that lies there already by the same plan is left as it is. InputError as `Tally.check` says."""
    with write_examples(out, plan, dtype=stored_dtype(chat.tokenizer.vocab_size)) as writer:
        if isinstance(writer, Manifest):
            return writer
        lengths = _Lengths()
        for made in _batched(_render(chat, rows, tally)):
            _add(writer, made, chat.encode([side for one in made for side in one.sides]), files, tally, lengths)
        tally.check(files, lengths.pairs)
        check_left(lengths.pairs - lengths.held, lengths.pairs)
        return writer.commit(
            tokenizer=tokenizer_info(chat.tokenizer),
            sources=source_infos(files, [tally.by_file[file.name] for file in files]),
            balance=_balance(tally, lengths),
            bad_rows=_list_bad(out / BUILD_FOLDER / BAD_ROWS_NAME, tally, files),
        )


def _balance(tally: Tally, lengths: "_Lengths") -> dict[str, Any]:
    """Rows by their fate, as manifests of examples have them, and what else a report says."""
    counts = tally.counts()
    splits = {"train": lengths.pairs - lengths.held, "val": lengths.held}
    own = {"kept": lengths.pairs, "splits": splits, "datasets": dict(sorted(tally.kinds.items())), **lengths.facts()}
    return {
        "rows": counts["rows"],
        "bad_rows": counts["bad"],
        "documents": {"dropped": counts["dropped"]},
        "notes": counts["notes"],
        "examples": {**counts, **own},
    }


def _list_bad(path: Path, tally: Tally, files: Sequence[InputFile]) -> Path | None:
    """The bad rows, to be put beside the corpus; None if there are none."""
    lines = list(tally.listed(files, tally.bad))
    if lines:
        with AtomicFile(path) as file:
            file.write(b"".join(lines))
    return path if lines else None


def _render(chat: Chat, rows: Iterable[PairRow], tally: Tally) -> Iterator[_Made]:
    """Both conversations of each pair; one that the template does not know is a bad row."""
    for row in rows:
        prompt = [{"role": "user", "content": row.prompt}] if isinstance(row.prompt, str) else row.prompt
        before = [Message(turn["role"], turn["content"]) for turn in prompt]
        try:
            chosen, rejected = (
                chat.render([*before, Message("assistant", answer)]) for answer in (row.chosen, row.rejected)
            )
        except InputError:
            tally.refuse(row.file, row.line, NOT_RENDERABLE)
        else:
            yield _Made(row, (chosen, rejected))


def _batched(made: Iterator[_Made]) -> Iterator[list[_Made]]:
    while some := list(islice(made, AT_ONCE)):
        yield some


class _Lengths:
    """Sums over the rows that were written."""

    def __init__(self) -> None:
        self.pairs = self.held = self.ids = self.trained = self.longest = 0

    def take(self, batch: TokenBatch, held: Bools) -> None:
        """The rows of some pairs, and which of the pairs are held out."""
        assert batch.loss_mask is not None, "a chat gives a mask"
        self.pairs += len(held)
        self.held += int(np.count_nonzero(held))
        self.ids += len(batch.ids)
        self.trained += int(np.count_nonzero(batch.loss_mask))
        self.longest = max(self.longest, int(batch.lengths.max(initial=0)))

    def facts(self) -> dict[str, int | float]:
        return {
            "ids": self.ids,
            "trained": self.trained,
            "longest": self.longest,
            "mean": self.ids / max(1, ROWS * self.pairs),
        }


def _add(
    writer: ExampleWriter,
    made: Sequence[_Made],
    batch: TokenBatch,
    files: Sequence[InputFile],
    tally: Tally,
    lengths: _Lengths,
) -> None:
    """Hand the rows of some pairs to the writer, but for pairs that differ in their texts alone."""
    same = _identical(batch)
    for number in np.flatnonzero(same).tolist():
        tally.drop(made[number].row.file, made[number].row.line, IDENTICAL_IDS)
    if same.any():
        batch = _those(batch, np.repeat(~same, ROWS))
    numbers = {file.name: number for number, file in enumerate(files)}
    kept = [one.row for one, gone in zip(made, same.tolist(), strict=True) if not gone]
    records = np.repeat(np.array([row.line - 1 for row in kept], np.int64), ROWS)
    sources = np.repeat(np.array([numbers[row.file.name] for row in kept], np.int32), ROWS)
    held = np.array([row.held for row in kept], np.bool_)
    lengths.take(batch, held)
    for split, rows in (("train", np.repeat(~held, ROWS)), ("val", np.repeat(held, ROWS))):
        if rows.any():
            writer.add(split, _those(batch, rows), records[rows], sources[rows])


def _identical(batch: TokenBatch) -> Bools:
    """(k,): have both rows of a pair the same ids?"""
    ends: Int64 = np.cumsum(batch.lengths)
    starts = ends - batch.lengths
    same: Bools = batch.lengths[::2] == batch.lengths[1::2]
    for number in np.flatnonzero(same).tolist():
        first, second, end = starts[2 * number], starts[2 * number + 1], ends[2 * number + 1]
        same[number] = np.array_equal(batch.ids[first:second], batch.ids[second:end])
    return same


def _those(batch: TokenBatch, rows: Bools) -> TokenBatch:
    """Some of the rows."""
    ids = np.repeat(rows, batch.lengths)
    assert batch.loss_mask is not None, "a chat gives a mask"
    return TokenBatch(batch.ids[ids], batch.lengths[rows], batch.loss_mask[ids])
