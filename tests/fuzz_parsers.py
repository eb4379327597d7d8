"""What the fuzzer reads: every parser of files that come from elsewhere, and what a sound reading is."""

import hashlib
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from tokenriver import registry
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError
from tokenriver.examples import _choice_native
from tokenriver.formats._meta import read_meta
from tokenriver.storage import ShardFile, ShardReader
from tokenriver.tokenizers import _sentencepiece_file

Parser = Callable[[Path], None]
MOST_IDS = 1 << 22
"""Ids that are looked at; a file may say that it has more, and mean it."""


def _check_reader(shard: ShardFile, reader: ShardReader) -> None:
    """Every way to read a shard gives the same, and what its index says of it."""
    count = reader.num_tokens
    assert count >= 0
    ends = reader.doc_ends
    documents = None if ends is None else len(ends)
    indexed = (shard.num_tokens, shard.dtype, shard.num_documents)
    if any(said not in (None, true) for said, true in zip(indexed, (count, reader.dtype.name, documents), strict=True)):
        raise FormatError(f"{shard.path}: another shard than the index has")  # a corpus says so when it opens the shard
    if ends is not None:
        assert not len(ends) or (ends[0] >= 0 and ends[-1] <= count), "a document outside the shard"
        assert (ends[1:] >= ends[:-1]).all(), "documents that overlap"
    seen = min(count, MOST_IDS)
    ids = reader.read(0, seen)
    assert (ids.shape, ids.dtype) == ((seen,), reader.dtype)
    if seen:
        starts = np.array([0, seen // 2, seen - 1], np.int64)
        n = max(1, min(17, seen // 2))
        starts = np.minimum(starts, seen - n)
        found = np.frombuffer(b"".join(reader.windows(starts, n)), reader.dtype).reshape(3, n)
        assert all(np.array_equal(row, ids[at : at + n]) for row, at in zip(found, starts.tolist(), strict=True))
        reader.read(count - 1, count)
    again = pickle.loads(pickle.dumps(reader))
    assert np.array_equal(again.read(0, seen), ids), "another reading than before"


def _read_format(name: str, folder: Path) -> None:
    module = registry.load("formats", name)
    sniffed = module.sniff(folder)
    assert isinstance(sniffed, bool)
    for path in sorted(folder.iterdir()):
        assert isinstance(module.sniff(path), bool)
    told = None
    for shard in module.find(folder):
        try:
            reader = module.open_reader(shard.path, dtype=shard.dtype)
        except FormatError as error:
            # what does not say its dtype is read when it is told
            if "dtype" not in str(error):
                raise
            told = "uint16"
            reader = module.open_reader(shard.path, dtype=told)
        _check_reader(shard, reader)
        reader.close()
    _read_corpus(folder, name, told)
    if hasattr(module, "audit"):
        assert all(isinstance(found, FormatError) for found in module.audit(folder))


def _read_corpus(folder: Path, name: str | None = None, dtype: str | None = None) -> None:
    corpus = open_corpus(folder, format=name, dtype=dtype)
    assert corpus.num_tokens > 0
    corpus.read(0, min(corpus.num_tokens, MOST_IDS))
    if corpus.num_documents:
        start, stop = corpus.doc_bounds(corpus.num_documents - 1)
        assert 0 <= start <= stop == corpus.num_tokens
        assert len(corpus.document(corpus.num_documents // 2)) <= corpus.num_tokens
        assert corpus.document_at(0) >= 0
    if corpus.loss_mask is not None:
        seen = np.arange(min(corpus.num_tokens, MOST_IDS))
        assert corpus.loss_mask.at(seen).sum() <= corpus.loss_mask.count() <= corpus.num_tokens


def _read_meta(folder: Path) -> None:
    characters = read_meta(folder / "meta.pkl")
    assert len(set(characters)) == len(characters)


def _read_tokenizer(folder: Path) -> None:
    [path] = folder.iterdir()
    tokenizer = registry.load("tokenizers", "llmc").load(str(path))
    size = tokenizer.vocab_size
    assert 0 < size <= path.stat().st_size
    tokenizer.decode_bytes(range(min(size, 1000)))


def _read_choices(folder: Path) -> None:
    [path] = folder.iterdir()
    data = path.read_bytes()
    if data.startswith(_choice_native.MAGIC):  # a checksum would hide all that is behind it
        path.write_bytes(data[:-32] + hashlib.sha256(data[:-32]).digest())
    module = registry.load("examples", "choice")
    assert module.sniff(path) in ("", *module.FORMATS)
    examples = module.read(path)
    assert ((examples.labels >= 0) & (examples.labels < examples.counts)).all()
    for number in range(min(len(examples), 100)):
        assert all(len(piece) for piece in examples.pieces(number))
        assert len(examples.pieces(number)) == examples.counts[number] + 1
        examples.origin(number)
    examples.describe()


def _read_sentencepiece(folder: Path) -> None:
    [path] = folder.iterdir()
    model = _sentencepiece_file.parse(path, path.read_bytes())
    assert 0 < len(model.pieces) <= path.stat().st_size
    assert len({piece.text for piece in model.pieces}) == len(model.pieces)


PARSERS: Mapping[str, Parser] = {
    **{name: partial(_read_format, name) for name in registry.names("formats")},
    "corpus": _read_corpus,
    "meta": _read_meta,
    "llmc-tokenizer": _read_tokenizer,
    "choices": _read_choices,
    "sentencepiece": _read_sentencepiece,
}
