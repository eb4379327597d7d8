"""llm.c's tokenizer file, `gpt2_tokenizer.bin`: the bytes of every id, and no more.

    offset   size   content
    0        4      uint32 magic 20240328
    4        4      uint32 version, 1 or 2
    8        4      uint32 V, number of ids
    12       4      uint32 id that ends a text (version 2; in version 1 it is 50256, and V 50257)
    16       1008   zeros
    1024            V records in id order: a length byte of 1 to 255, then that many bytes

The file holds no merges and no rule for splitting text, so it decodes. It encodes only when its records are, byte for
byte, those of GPT-2: then ids are ranks and the rule is known. What lies behind the last record is refused, which
llm.c's own reader does not look at.
"""

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tokenriver import files, registry
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.storage import WrittenFile
from tokenriver.tokenizers import _pieces
from tokenriver.tokenizers._bpe import BpeTokenizer
from tokenriver.types import Ids, Int64, Tokenizer

SUFFIXES = (".bin",)
MAGIC = 20240328
HEADER_BYTES = 1024
GPT2_SIZE, GPT2_END = 50257, 50256
GPT2_RECORDS = "a622700e3255b4a6186e052c4c715c1d05634cb6041c12ab6c95c9ee0a2c9772"
"""sha256 of the records of GPT-2's file, which both versions share."""
MAX_VOCAB = 1 << 20
MAX_PIECE = 255
_SHARDS = {20240520: "an llm.c shard of token ids", 20240801: "a shard of Llama 3 ids", 20240522: "an evaluation file"}


@dataclass(frozen=True, slots=True)
class LlmcTokenizer:
    """types.Tokenizer over a vocabulary alone: it decodes, and refuses to encode."""

    name: str
    pieces: Sequence[bytes]
    eos_id: int | None
    fingerprint: str
    pad_id: int | None = None
    encoder: str = "reference"

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def bos_id(self) -> int | None:
        return self.eos_id

    def encode(self, text: str) -> Ids:
        """InputError: see encode_batch."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[bytes] | Sequence[str]) -> tuple[Ids, Int64]:
        """InputError: there are no merges in the file, and its records are not GPT-2's, whose merges are known."""
        raise InputError(
            f"{self.name}: encode: got a file without merges whose {self.vocab_size} records are not GPT-2's, expected "
            "the tokenizer that it was made from; use that one to encode, this file decodes"
        )

    def encode_framed(
        self, texts: Sequence[bytes] | Sequence[str], before: int | None, after: int | None
    ) -> tuple[Ids, Int64]:
        """InputError: see encode_batch."""
        return self.encode_batch(texts)

    def check(self, texts: Sequence[bytes], ids: Ids, lengths: Int64) -> None:
        """Nothing to compare: there is no encoder."""

    def self_check(self) -> int:
        """No texts compared: there is no encoder."""
        return 0

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text, invalid UTF-8 as U+FFFD; special ids by their content."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Sequence[int] | Ids) -> bytes:
        """The exact bytes, zeros among them (llm.c's C strings end at one); LimitError for an id outside."""
        return _pieces.join(self.pieces, ids)


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> Tokenizer:
    """The tokenizer in the file of that path; FormatError with byte, value and expectation for a damaged one."""
    path = Path(name)
    data = _read(path)
    eos_id = _read_header(path, data)
    pieces = list(_records(path, data))
    digest = hashlib.sha256(memoryview(data)[HEADER_BYTES:]).hexdigest()
    if (digest, eos_id) == (GPT2_RECORDS, GPT2_END):
        known: BpeTokenizer = registry.load("tokenizers", "tiktoken").load("gpt2", search=search, encoder=encoder)
        return replace(known, name=path.name)
    content = f"llm.c vocabulary, {len(pieces)} records {digest}, end {eos_id}"
    return LlmcTokenizer(path.name, pieces, eos_id, hashlib.sha256(content.encode()).hexdigest())


def _read(path: Path) -> bytes:
    longest = HEADER_BYTES + MAX_VOCAB * (MAX_PIECE + 1)
    with files.naming(path, "read"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, longest) + 1)
    if len(data) < HEADER_BYTES or len(data) > longest:
        raise FormatError(f"{path}: size: got {size} bytes, expected {HEADER_BYTES} of header and the records")
    return data


def _read_header(path: Path, data: bytes) -> int:
    """The id that ends a text."""
    magic, version, size, end = struct.unpack_from("<4I", data)
    if magic != MAGIC:
        known = f", which is {_SHARDS[magic]}" if magic in _SHARDS else ""
        raise FormatError(f"{path}: magic at byte 0: got {magic}{known}, expected {MAGIC} of a tokenizer file")
    if version not in (1, 2):
        raise FormatError(f"{path}: version at byte 4: got {version}, expected 1 or 2")
    if version == 1 and size != GPT2_SIZE:
        raise FormatError(f"{path}: number of ids at byte 8: got {size}, expected {GPT2_SIZE} in version 1")
    most = min(MAX_VOCAB, (len(data) - HEADER_BYTES) // 2)
    if not 1 <= size <= most:
        raise FormatError(f"{path}: number of ids at byte 8: got {size}, expected 1 to {most} in {len(data)} bytes")
    end = GPT2_END if version == 1 else end
    if end >= size:
        raise FormatError(f"{path}: id of the end at byte 12: got {end}, expected less than {size}")
    return int(end)


def _records(path: Path, data: bytes) -> Iterator[bytes]:
    size, at = int.from_bytes(data[8:12], "little"), HEADER_BYTES
    for number in range(size):
        length = data[at] if at < len(data) else 0
        if length == 0 or at + 1 + length > len(data):
            left = len(data) - at - 1
            raise FormatError(
                f"{path}: length of record {number} at byte {at}: got {length}, expected 1 to {min(left, MAX_PIECE)}"
            )
        yield data[at + 1 : at + 1 + length]
        at += 1 + length
    if at != len(data):
        raise FormatError(f"{path}: size: got {len(data)} bytes, expected {at}, where record {size - 1} ends")


def write(path: Path, tokenizer: Tokenizer) -> WrittenFile:
    """Write a tokenizer's vocabulary as a version 2 file, by the commit protocol; LimitError for a hole in it, a piece
    of no or over 255 bytes, or no id that ends a text."""
    if tokenizer.eos_id is None:
        raise LimitError(f"{path}: end of text: got no id in {tokenizer.name}, expected one; the file must name it")
    if tokenizer.vocab_size > MAX_VOCAB:
        raise LimitError(f"{path}: vocabulary: got {tokenizer.vocab_size} ids, expected at most {MAX_VOCAB}")
    head = struct.pack("<4I", MAGIC, 2, tokenizer.vocab_size, tokenizer.eos_id)
    records = bytearray(head.ljust(HEADER_BYTES, b"\0"))
    decode = getattr(tokenizer, "within", None) or tokenizer.decode_bytes
    for number in range(tokenizer.vocab_size):
        piece = decode([number])
        if not 1 <= len(piece) <= MAX_PIECE:
            raise LimitError(f"{path}: id {number}: got {len(piece)} bytes, expected 1 to {MAX_PIECE} in a record")
        records.append(len(piece))
        records += piece
    with files.AtomicFile(path) as file:
        file.write(records)
    return WrittenFile(path, file.num_bytes, file.sha256)


def printable(data: bytes) -> str:
    r"""Decoded bytes made safe for a terminal: line feeds and tabs stay, other control and invisible characters and
    invalid bytes are shown by their code (`\x1b`), where llm.c drops a lone one and obeys the rest."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
