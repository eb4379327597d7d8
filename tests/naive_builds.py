"""The build as its description has it, with lists and loops: no units, no parts, nothing of the package."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard
from hypothesis import strategies as st

from small_builds import EOS, documents, manifest_of, must_equal

Document = tuple[list[int], int, int]
"""(ids with framing, record, source)."""

BAD = b'{"other": 1}'
BLANK = b"  "


@dataclass(frozen=True)
class Input:
    """One input: rows of JSON lines (a text, BLANK or BAD), or texts that `|` parts."""

    name: str
    rows: tuple[str | bytes, ...]

    def raw(self) -> list[bytes]:
        """Each row as it lies in the file, its end included."""
        if ".txt" in self.name:
            return [(row.encode() if isinstance(row, str) else row) + b"|" for row in self.rows]
        lines = [row if isinstance(row, bytes) else json.dumps({"text": row}).encode() for row in self.rows]
        return [line + b"\n" for line in lines]

    def write(self, folder: Path) -> Path:
        data = b"".join(self.raw())
        if self.name.endswith(".gz"):
            data = gzip.compress(data, mtime=0)
        if self.name.endswith(".zst"):
            data = zstandard.compress(data)
        path = folder / self.name
        path.write_bytes(data)
        return path


@dataclass(frozen=True)
class Wanted:
    """The options of a build that decide what becomes of its documents."""

    before: int | None = None
    after: int | None = EOS
    max_tokens: int | None = None
    val_tokens: int | None = None
    val_fraction: float = 0.0
    shard_tokens: int = 10**8
    exact: bool = False
    bounds: tuple[tuple[str, int], ...] = ()
    """Of the filter `length`: (name, bound) of each."""
    max_document_tokens: int | None = None
    once: bool = False
    """Of equal texts the first stays."""

    @property
    def filter(self) -> list[str]:
        """As the build is asked for it."""
        words = ",".join(f"{name}={bound}" for name, bound in self.bounds)
        return [*([f"length:{words}"] if words else []), *(["exact_dedup"] if self.once else [])]


@dataclass
class Expected:
    """What has to come out."""

    splits: dict[str, list[list[Document]]] = field(default_factory=dict)
    """By split, shard by shard."""
    dropped: list[Document] = field(default_factory=list)
    """Documents beyond max_tokens."""
    bad: list[dict[str, object]] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    filtered: dict[str, tuple[int, int]] = field(default_factory=dict)
    """(documents, ids) by reason."""


def naive(inputs: Sequence[Input], wanted: Wanted) -> Expected:
    """The whole build."""
    expected = Expected()
    everything: list[tuple[Document, bytes]] = []
    seen: set[bytes] = set()
    for source, one in enumerate(inputs):
        offset = 0
        for record, (row, raw) in enumerate(zip(one.rows, one.raw(), strict=True)):
            expected.rows += 1
            if row in (BLANK, "") and (".txt" not in one.name or row == ""):
                note = "blank" if row == BLANK else "empty"
                expected.notes[note] = expected.notes.get(note, 0) + 1
            elif row == BAD and ".txt" not in one.name:
                place = {"file": one.name, "line": record + 1, "offset": offset, "reason": "field-missing"}
                expected.bad.append(place)
            else:
                text = row.encode() if isinstance(row, str) else row
                ids = [*([wanted.before] if wanted.before is not None else []), *text]
                ids += [wanted.after] if wanted.after is not None else []
                reason = _reason(text.decode(), ids, wanted)
                if wanted.once and reason is None:
                    reason = "duplicate" if text in seen else None
                    seen.add(text)
                if reason is None:
                    everything.append(((ids, record, source), text))
                else:
                    count, total = expected.filtered.get(reason, (0, 0))
                    encoded = 0 if reason.endswith("chars") else len(ids)
                    expected.filtered[reason] = (count + 1, total + encoded)
            offset += len(raw)
    kept, expected.dropped = _leading(everything, wanted.max_tokens)
    val, train = _validation(kept, wanted)
    for split, chosen in (("train", train), ("val", val)):
        if chosen:
            expected.splits[split] = shards_of(chosen, wanted)
    return expected


def _reason(text: str, ids: list[int], wanted: Wanted) -> str | None:
    """Why a document is dropped: characters are looked at before ids, the lower bound before the upper one."""
    bounds = dict(wanted.bounds)
    for what, size in (("chars", len(text)), ("ids", len(ids))):
        if size < bounds.get(f"min_{what}", 0):
            return f"min_{what}"
        if size > bounds.get(f"max_{what}", size):
            return f"max_{what}"
    if wanted.max_document_tokens is not None and len(ids) > wanted.max_document_tokens:
        return "max_document_tokens"
    return None


def _leading(
    everything: list[tuple[Document, bytes]], limit: int | None
) -> tuple[list[tuple[Document, bytes]], list[Document]]:
    total = 0
    for number, ((ids, _, _), _) in enumerate(everything):
        total += len(ids)
        if limit is not None and total > limit:
            return everything[:number], [document for document, _ in everything[number:]]
    return everything, []


def _validation(kept: list[tuple[Document, bytes]], wanted: Wanted) -> tuple[list[Document], list[Document]]:
    if wanted.val_fraction:
        held = [_held_out(text, wanted.val_fraction) for _, text in kept]
        val = [document for (document, _), side in zip(kept, held, strict=True) if side]
        return val, [document for (document, _), side in zip(kept, held, strict=True) if not side]
    left = [document for document, _ in kept]
    if not wanted.val_tokens:
        return [], left
    return cut_at(left, wanted.val_tokens, wanted.exact)


def _held_out(text: bytes, fraction: float) -> bool:
    digest = hashlib.blake2b(text, digest_size=8, key=b"tokenriver val 1").digest()
    return int.from_bytes(digest, "little") < int(fraction * 2**64)


def cut_at(chosen: list[Document], ids: int, exact: bool) -> tuple[list[Document], list[Document]]:
    """The documents up to a number of ids, and the rest: whole ones until it is reached, or cut at the id."""
    total = 0
    for number, document in enumerate(chosen):
        if total >= ids:
            return chosen[:number], chosen[number:]
        room = ids - total
        if exact and len(document[0]) > room:
            head, tail = (document[0][:room], *document[1:]), (document[0][room:], *document[1:])
            return [*chosen[:number], head], [tail, *chosen[number + 1 :]]
        total += len(document[0])
    return chosen, []


def shards_of(chosen: list[Document], wanted: Wanted) -> list[list[Document]]:
    """Shards of shard_tokens ids each, cut at the id; or of whole documents, where each but the last holds the
    document that reaches the next multiple of it, and a last one under half of it shares evenly with its neighbour."""
    total, size = sum(len(ids) for ids, _, _ in chosen), wanted.shard_tokens
    ends = [size * n for n in range(1, 1 + total // size) if size * n < total]
    if not wanted.exact and ends and total - ends[-1] < size / 2:
        before = ends[-2] if len(ends) > 1 else 0
        ends[-1] = total - (total - before) // 2
    out, rest, done = [], chosen, 0
    for end in ends:
        if end > done:
            shard, rest = cut_at(rest, end - done, wanted.exact)
            done += sum(len(ids) for ids, _, _ in shard)
            out.append(shard)
    return [shard for shard in [*out, rest] if shard]


def compare(out: Path, expected: Expected) -> None:
    """A corpus against what had to come out: documents in order, where they came from, shards, balance, bad rows."""
    manifest = manifest_of(out)
    balance = manifest["balance"]
    assert set(manifest["shards"]["split"]) == set(expected.splits)
    for split, shards in expected.splits.items():
        must_equal(documents(out, split), [d for shard in shards for d in shard], f"documents of {split}")
        sizes = [sum(len(ids) for ids, _, _ in shard) for shard in shards]
        of_split = [at for at, name in enumerate(manifest["shards"]["split"]) if name == split]
        must_equal([manifest["shards"]["num_tokens"][at] for at in of_split], sizes, f"shards of {split}")
        assert balance["ids"]["kept"][split] == sum(sizes)
        assert balance["documents"]["kept"][split] == sum(map(len, shards))
    bad = [json.loads(line) for line in (out / "bad_rows.jsonl").read_bytes().splitlines()] if expected.bad else []
    must_equal(bad, expected.bad, "bad rows")
    assert (out / "bad_rows.jsonl").exists() == bool(expected.bad)
    if not expected.dropped:  # else the units that were needed decide how many rows were read
        assert balance["notes"] == expected.notes
        assert balance["rows"] == expected.rows
        counts = {"documents": 0, "ids": 1}
        for what, at in counts.items():
            assert balance[what]["filtered"] == {reason: n[at] for reason, n in expected.filtered.items()}
        assert sum(balance["bad_rows"].values()) == len(expected.bad)


# ------------------------------------------------------------------------------------------------ random inputs

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|"), max_size=30),
    st.builds(lambda words, count: words * count, st.sampled_from(["ab ", "é", "x\n\n"]), st.integers(0, 220)),
)
ROWS = {
    "jsonl": st.lists(st.one_of(TEXTS, TEXTS, TEXTS, st.sampled_from([BLANK, BAD])), max_size=25),
    "txt": st.lists(TEXTS, max_size=25),
}
ENDINGS = [".jsonl", ".jsonl.gz", ".jsonl.zst", ".txt", ".txt.zst"]


@st.composite
def some_inputs(draw: st.DrawFn) -> list[Input]:
    """One to four inputs of any kind with at least one document among them."""
    inputs = []
    for number, ending in enumerate(draw(st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=4))):
        rows = draw(ROWS[ending.split(".")[1]])
        # a file of no bytes is refused, and a first row decides what a file is
        inputs.append(Input(f"{number}{ending}", ("first", *rows)))
    return inputs


LOW, HIGH = st.integers(1, 12), st.integers(12, 300)
BOUNDS = st.fixed_dictionaries({}, optional={"min_chars": LOW, "max_chars": HIGH, "min_ids": LOW, "max_ids": HIGH})
OPTIONS = st.builds(
    Wanted,
    max_tokens=st.one_of(st.none(), st.integers(1, 6000)),
    shard_tokens=st.sampled_from([10**8, 2000, 700, 90]),
    exact=st.booleans(),
    bounds=st.one_of(st.just(()), BOUNDS.map(lambda bounds: tuple(bounds.items()))),
    max_document_tokens=st.one_of(st.none(), st.none(), st.integers(1, 200)),
    once=st.booleans(),
)
SPLITS = st.one_of(
    st.just((None, 0.0)),
    st.just((None, 0.0)),
    st.tuples(st.integers(1, 4000), st.just(0.0)),
    st.tuples(st.none(), st.sampled_from([0.1, 0.5, 0.9])),
)
