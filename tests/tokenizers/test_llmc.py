"""llm.c's tokenizer file: versions 1 and 2 are read, 2 is written; it encodes only when it is GPT-2's."""

import hashlib
import struct
from pathlib import Path

import pytest

from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.tokenizer import load_tokenizer
from tokenriver.tokenizers import byte, llmc, tiktoken
from toy_tokenizers import byte_level, few_ranks, rank_file, write

PIECES = [b"a", b"\x00", b"\xff\xfe", b"x" * 255, b"<|endoftext|>"]
# what llm.c's own writer makes of GPT-2, and what its reader accepts as version 1
GPT2 = {
    2: "6f3abc21e444e4e8300e225f4e03da48ea121cf17e30f67009b8dad7a66c2f13",
    1: "72c44782644dccc955e1b775d0d7552a594bbb54bfc6141e31373324d486956d",
}
DECODED = [15496, 995, 0, 198, 220, 50256, 1234, 40000, 50255]


def _file(
    folder: Path, pieces: list[bytes], *, version: int = 2, end: int = 4, name: str = "toy_tokenizer.bin"
) -> Path:
    path = folder / name
    head = struct.pack("<4I", 20240328, version, len(pieces), end).ljust(1024, b"\0")
    path.write_bytes(head + b"".join(bytes([len(piece)]) + piece for piece in pieces))
    return path


def _gpt2(folder: Path, version: int) -> Path:
    path = folder / f"gpt2_v{version}.bin"
    llmc.write(path, tiktoken.load("gpt2"))
    if version == 1:
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, 4, 1)
        struct.pack_into("<I", data, 12, 0)
        path.write_bytes(data)
    return path


@pytest.mark.parametrize("version", [1, 2])
def test_gpt2_is_the_originals_file_and_encodes(tmp_path: Path, version: int) -> None:
    path = _gpt2(tmp_path, version)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == GPT2[version]
    tokenizer = load_tokenizer(path)
    known = load_tokenizer("gpt2")
    assert tokenizer.name == f"gpt2_v{version}.bin"
    assert tokenizer.fingerprint == known.fingerprint
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.bos_id) == (50257, 50256, 50256)
    assert tokenizer.encode("Hello world!").tolist() == [15496, 995, 0]
    assert tokenizer.decode(DECODED) == "Hello world!\n <|endoftext|> put newfound gazed"
    assert tokenizer.decode_bytes([188, 0]) == b"\0!"


def test_a_vocabulary_of_ones_own_decodes_and_says_why_it_does_not_encode(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(_file(tmp_path, PIECES))
    assert isinstance(tokenizer, llmc.LlmcTokenizer)
    assert (tokenizer.name, tokenizer.vocab_size) == ("toy_tokenizer.bin", 5)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (4, 4, None)
    assert tokenizer.decode_bytes([0, 1, 2, 0, 4]) == b"a\x00\xff\xfea<|endoftext|>"
    assert tokenizer.decode([0, 2]) == "a\ufffd\ufffd"
    with pytest.raises(LimitError, match="got 5 at position 1"):
        tokenizer.decode_bytes([0, 5])
    for call in (
        lambda: tokenizer.encode("a"),
        lambda: tokenizer.encode_batch([b"a"]),
        lambda: tokenizer.encode_framed([b"a"], None, 4),
    ):
        with pytest.raises(InputError, match=r"toy_tokenizer\.bin: encode: got a file without merges whose 5 records"):
            call()
    assert tokenizer.self_check() == 0


def test_gpt2_with_one_byte_changed_does_not_encode(tmp_path: Path) -> None:
    path = _gpt2(tmp_path, 2)
    data = bytearray(path.read_bytes())
    data[1025] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="records are not GPT-2's"):
        load_tokenizer(path).encode("a")
    data[1025] ^= 1
    struct.pack_into("<I", data, 12, 5)
    path.write_bytes(data)
    assert load_tokenizer(path).eos_id == 5
    with pytest.raises(InputError, match="encode"):
        load_tokenizer(path).encode("a")


def test_fingerprints_differ_where_ids_do(tmp_path: Path) -> None:
    files = [
        _file(tmp_path, PIECES, name="a.bin"),
        _file(tmp_path, PIECES, end=3, name="b.bin"),
        _file(tmp_path, [b"a\x00", *PIECES[2:]], end=3, name="c.bin"),
        _file(tmp_path, PIECES, name="d.bin"),
    ]
    prints = [load_tokenizer(file).fingerprint for file in files]
    assert len(set(prints)) == 3
    assert prints[0] == prints[3]


def test_a_byte_tokenizer_is_written_and_read(tmp_path: Path) -> None:
    written = llmc.write(tmp_path / "bytes.bin", byte.load("byte"))
    assert written.num_bytes == 1024 + 2 * 256 + 14
    assert written.sha256 == hashlib.sha256((tmp_path / "bytes.bin").read_bytes()).hexdigest()
    tokenizer = load_tokenizer(tmp_path / "bytes.bin")
    assert (tokenizer.vocab_size, tokenizer.eos_id) == (257, 256)
    assert tokenizer.decode_bytes(list(range(257))) == bytes(range(256)) + b"<|endoftext|>"
    assert [path.name for path in tmp_path.iterdir()] == ["bytes.bin"]


def test_what_the_file_cannot_hold_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    with pytest.raises(LimitError, match=r"end of text: got no id in tokenizer\.json, expected one"):
        llmc.write(path, load_tokenizer(write(tmp_path, byte_level())))
    table = tmp_path / "holes.cl100k_base.tiktoken"
    table.write_bytes(rank_file(few_ranks() | {b"xy": 300}))
    with pytest.raises(LimitError, match="got 260 at position 0, expected an id of this vocabulary"):
        llmc.write(path, load_tokenizer(table))
    long = llmc.LlmcTokenizer("long", [b"x" * 256, b"e"], 1, "")
    with pytest.raises(LimitError, match=r"id 0: got 256 bytes, expected 1 to 255 in a record"):
        llmc.write(path, long)
    with pytest.raises(LimitError, match="vocabulary: got 1048577 ids, expected at most 1048576"):
        llmc.write(path, llmc.LlmcTokenizer("wide", [b"x"] * (2**20 + 1), 1, ""))
    assert not path.exists()


def _changed(offset: int, value: int) -> bytes:
    data = bytearray(1024 + 12)
    struct.pack_into("<4I", data, 0, 20240328, 2, 3, 2)
    data[1024:] = b"\x01a\x02bc\x06end..."[:12].ljust(12, b".")
    struct.pack_into("<I", data, offset, value)
    return bytes(data)


LIES = {
    "magic": (_changed(0, 1), "magic at byte 0: got 1, expected 20240328 of a tokenizer file"),
    "a shard": (_changed(0, 20240520), "got 20240520, which is an llm.c shard of token ids"),
    "version": (_changed(4, 3), "version at byte 4: got 3, expected 1 or 2"),
    "version 1": (_changed(4, 1), "number of ids at byte 8: got 3, expected 50257 in version 1"),
    "no ids": (_changed(8, 0), "number of ids at byte 8: got 0, expected 1 to 6 in 1036 bytes"),
    "huge": (_changed(8, 2**32 - 1), "got 4294967295, expected 1 to 6"),
    "end": (_changed(12, 3), "id of the end at byte 12: got 3, expected less than 3"),
    "fewer ids": (_changed(8, 2), "id of the end at byte 12|size: got 1036 bytes, expected 1029"),
    "more ids": (_changed(8, 4), "length of record 3 at byte 1036: got 0, expected 1 to"),
    "empty record": (_changed(1024, 0x63620000), "length of record 0 at byte 1024: got 0"),
    "short": (b"\0" * 100, "size: got 100 bytes, expected 1024 of header and the records"),
    "empty": (b"", "size: got 0 bytes"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_file_that_lies_is_refused_with_the_field(tmp_path: Path, name: str) -> None:
    data, words = LIES[name]
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=words):
        load_tokenizer(path)


def test_every_cut_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, PIECES)
    data = path.read_bytes()
    for size in (*range(0, 1024, 61), *range(1024, len(data)), len(data) + 1):
        path.write_bytes((data + b"\x01")[:size])
        with pytest.raises(FormatError):
            load_tokenizer(path)


def test_control_bytes_are_shown_and_not_obeyed() -> None:
    assert llmc.printable(b"a\x1b[2J\x00\x07\x7f") == "a\\x1b[2J\\x00\\x07\\x7f"
    assert llmc.printable("caf\u00e9\n\t\u4e2d \U0001f600".encode()) == "caf\u00e9\n\t\u4e2d \U0001f600"
    assert llmc.printable(b"\xff\xc3\x28") == "\\xff\\xc3("
    assert llmc.printable("\u202eabc\u200b\x9b\r".encode()) == "\\u202eabc\\u200b\\x9b\\r"
