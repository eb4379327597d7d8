"""A corpus against its sources: every document is decoded and compared with the text that it was made from.

The documents of each split lie in source order, so the sources are read once, from first to last, and each of their
documents must be next in one of the splits. Memory holds one batch of texts, whatever the corpus.
"""

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import orjson

from tokenriver import registry
from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError, InputError, RiverError
from tokenriver.filtering import recorded_rules
from tokenriver.inputs import InputFile
from tokenriver.manifest import Manifest, SourceInfo
from tokenriver.records import Fault, read_records
from tokenriver.streams import read_blocks
from tokenriver.types import DocumentBatch, Ids, Piece, SourceOptions, Tokenizer

EXAMPLE = "example"
"""The framing of a corpus of examples, whose documents are made of records by a template."""
EXCERPT = 40
RANGE_BYTES = 16 << 20
Difference = tuple[str, str, str, str]
"""(path, what, got, expected)"""


Place = tuple[int, int]
"""(source, record): the order of all documents of a split."""


class _Stored:
    """The documents of one split in order, one at hand; `head` is its place, None after the last."""

    def __init__(self, corpus: Corpus) -> None:
        self.path = str(corpus.path)
        self._documents = corpus.walk()
        self.head: Place | None = None
        self._ids: Ids = np.empty(0, corpus.dtype)
        self._step()

    def _step(self) -> None:
        found = next(self._documents, None)
        self.head = None if found is None else found[:2]
        self._ids = self._ids[:0] if found is None else found[2]

    def before(self, place: Place) -> Iterator[Place]:
        """Pass over the documents that lie before a place."""
        while self.head is not None and self.head < place:
            yield self.head
            self._step()

    def at(self, place: Place) -> Iterator[Ids]:
        """The document of a place: in one piece, or in several where shards are cut at the id."""
        while self.head == place:
            yield self._ids
            self._step()


def compare(corpora: list[Corpus], manifest: Manifest, tokenizer: Tokenizer, roots: list[Path]) -> Iterator[Difference]:
    """Differences between all splits of a corpus (validation first) and the inputs below the first root that has
    them. InputError for an input that is not there or cannot be read."""
    stored = [_Stored(corpus) for corpus in corpora]
    framing = _framing(manifest)
    limited = manifest.options.get("max_tokens") is not None
    gone = _Filtered(manifest, tokenizer)
    for number, source in enumerate(manifest.sources):
        if all(split.head is None for split in stored) and limited:
            return
        path = _find(source, roots)
        for record, text in _texts(path, source, manifest):
            place = (number, record)
            yield from _extra(stored, place, manifest)
            pieces = [ids for split in stored for ids in split.at(place)]
            if pieces:
                ids = np.concatenate(pieces)
                found = _differs(ids, text, tokenizer, framing) or gone.dropped(text, len(ids))
                if found is not None:
                    yield str(path), f"record {record}: {found[0]}", *found[1:]
            elif limited and all(split.head is None for split in stored):
                return
            elif not gone.allows(text):
                yield str(path), f"record {record}", "no document of the corpus", _excerpt(text)
    yield from _extra(stored, (len(manifest.sources), 0), manifest)
    if gone.count != gone.total:
        yield stored[0].path, "documents that filters dropped", str(gone.count), f"{gone.total}, those of the balance"


class _Filtered:
    """The documents that filters have dropped. A length is measured again; what only a filter of the user's own can
    tell is counted, and may be as many as the balance says."""

    def __init__(self, manifest: Manifest, tokenizer: Tokenizer) -> None:
        self._rules, others = recorded_rules(manifest.options)
        self._tokenizer = tokenizer
        self._framing = sum(edge is not None for edge in astuple(_framing(manifest)))
        documents = manifest.balance.get("documents")
        counts = documents.get("filtered", {}) if isinstance(documents, Mapping) else {}
        if not isinstance(counts, Mapping) or not all(type(count) is int for count in counts.values()):
            raise FormatError(f"balance: got {counts!r} as what filters dropped, expected numbers by reason")
        self.total: int = sum(counts.values())
        self._untold: int = sum(count for reason, count in counts.items() if reason in others)
        self.count = 0

    def allows(self, text: bytes) -> bool:
        """May the corpus have no document of this text?"""
        if not self.total:
            return False
        self.count += 1
        if self._reason(text, None) is not None:
            return True
        self._untold -= 1
        return self._untold >= 0

    def dropped(self, text: bytes, num_ids: int) -> tuple[str, str, str] | None:
        """(what, got, expected) if the corpus has a document that a filter drops."""
        reason = self._reason(text, num_ids)
        return None if reason is None else ("document", "there", f"none: {reason} drops it")

    def _reason(self, text: bytes, num_ids: int | None) -> str | None:
        for rule in self._rules:
            if rule.keep_texts is not None and not rule.keep_texts([text]).all():
                return rule.reason
            if rule.keep_lengths is not None:
                if num_ids is None:
                    num_ids = len(self._tokenizer.encode_batch([text])[0]) + self._framing
                if not rule.keep_lengths(np.array([num_ids])).all():
                    return rule.reason
        return None


def _extra(stored: list[_Stored], place: Place, manifest: Manifest) -> Iterator[Difference]:
    for split in stored:
        for source, record in split.before(place):
            name = manifest.sources[source].path if 0 <= source < len(manifest.sources) else f"source {source}"
            yield split.path, f"document of {name}, record {record}", "there", "no such document in the source"


def _find(source: SourceInfo, roots: list[Path]) -> Path:
    for root in roots:
        path = root / source.path
        if path.is_file():
            size = path.stat().st_size
            if size != source.size:
                raise InputError(
                    f"{path}: size: got {size} bytes, expected {source.size}; it was changed since the build"
                )
            return path
    looked = ", ".join(str(root) for root in roots)
    raise InputError(f"{source.path}: got no such input below {looked}; say where the inputs lie with inputs_root")


def _texts(path: Path, source: SourceInfo, manifest: Manifest) -> Iterator[tuple[int, bytes]]:
    """(record number, text) of every document of an input, in order."""
    module = registry.load("sources", source.kind)
    options = _options(manifest)
    if source.compression:
        batches = module.parse(read_blocks(path, source.compression), options, 0, first=True)
        yield from _numbered(batches, 0)
        return
    base = 0
    for start, stop in module.plan(path, source.size, options, RANGE_BYTES) or [(0, source.size)]:
        rows = yield from _numbered(module.read(Piece(0, path, start, stop), options), base)
        base += rows


def _rows(path: Path, source: SourceInfo) -> Iterator[tuple[int, bytes]]:
    """(record number, its JSON) of every record of fine-tuning data, in order."""
    file = InputFile(path, source.path, source.size, source.kind, source.compression)
    for records in read_records(file, SourceOptions()):
        for record, row in enumerate(records.rows, records.first):
            yield record, b"" if isinstance(row, Fault) else orjson.dumps(row, default=str)


def record_texts(manifest: Manifest, wanted: Collection[tuple[str, int]], root: Path) -> dict[tuple[str, int], bytes]:
    """The texts of some records, by (path in the manifest, record), from the inputs below a folder, each read from its
    start to the last record wanted. InputError for an input that is not there or was changed."""
    found: dict[tuple[str, int], bytes] = {}
    for source in manifest.sources:
        last = max((record for path, record in wanted if path == source.path), default=-1)
        if last < 0:
            continue
        path = _find(source, [root])
        texts = _rows(path, source) if manifest.framing == EXAMPLE else _texts(path, source, manifest)
        for record, text in texts:
            if (source.path, record) in wanted:
                found[source.path, record] = text
            if record >= last:
                break
    return found


def _options(manifest: Manifest) -> SourceOptions:
    """How the build read its inputs; FormatError for a manifest that says it in another form."""
    options = manifest.options
    separator, field = options.get("separator"), options.get("text_field", "text")
    if not isinstance(separator, str | None) or not isinstance(field, str):
        raise FormatError(f"options: got separator {separator!r} and text_field {field!r}, expected texts")
    kept = options.get("keep_separator") is True
    return SourceOptions(field, None if separator is None else separator.encode(), kept)


def _numbered(batches: Iterator[DocumentBatch], base: int) -> Generator[tuple[int, bytes], None, int]:
    """(base + record, text) of every document; at the end the number of raw rows."""
    rows = 0
    for batch in batches:
        yield from zip((batch.records + base).tolist(), batch.texts, strict=True)
        rows += batch.rows_read
    return rows


@dataclass(frozen=True, slots=True)
class _Framing:
    """Ids that must stand before and behind each document; None for none."""

    before: int | None
    after: int | None


def _framing(manifest: Manifest) -> _Framing:
    made_by = manifest.tokenizer
    eos, bos = (None, None) if made_by is None else (made_by.eos_id, made_by.bos_id)
    known = {"eos-after": (None, eos), "eos-before": (eos, None), "bos-eos": (bos, eos), "none": (None, None)}
    if manifest.framing == EXAMPLE:
        raise InputError("framing: got a corpus of examples, expected one of texts; verify it without its inputs")
    if manifest.framing not in known:
        raise InputError(f"framing: got {manifest.framing!r}, expected one of {', '.join(known)}")
    return _Framing(*known[manifest.framing])


def _differs(ids: Ids, text: bytes, tokenizer: Tokenizer, framing: _Framing) -> tuple[str, str, str] | None:
    """(what, got, expected) if framing and ids are not what this text gives. Byte-level tokenizers decode to the very
    bytes; where decoding loses something the text is encoded again."""
    if framing.before is not None:
        if int(ids[0]) != framing.before:
            return "first id", str(int(ids[0])), str(framing.before)
        ids = ids[1:]
    if framing.after is not None:
        if not len(ids) or int(ids[-1]) != framing.after:
            return "last id", str(int(ids[-1])) if len(ids) else "none", str(framing.after)
        ids = ids[:-1]
    try:
        decoded = tokenizer.decode_bytes(ids)
    except RiverError as error:
        return "ids", str(error), "ids of the vocabulary"
    if decoded == text or np.array_equal(tokenizer.encode_batch([text])[0], ids):
        return None
    at = next((i for i, (a, b) in enumerate(zip(decoded, text, strict=False)) if a != b), min(len(decoded), len(text)))
    return f"text at byte {at}", _excerpt(decoded[at:]), _excerpt(text[at:])


def _excerpt(text: bytes) -> str:
    shown = text[:EXCERPT].decode("utf-8", "replace")
    return repr(shown) + ("…" if len(text) > EXCERPT else "")
