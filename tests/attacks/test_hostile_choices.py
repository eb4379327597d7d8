"""Files of multiple-choice examples that lie: every byte changed, every length, every number that leads astray."""

import hashlib
import os
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenriver as tr
from choice_cases import as_lists, made
from tokenriver.errors import FormatError
from tokenriver.examples import _choice_llmc, _choice_native

EXAMPLES = made([([1, 2], [[3], [4, 5], [6], [7]], 1), ([8], [[9], [10], [11, 12, 13], [14]], 3)])
LLMC = b"".join(bytes(piece) for piece in _choice_llmc.pack(EXAMPLES))


def signed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


NATIVE = signed(b"".join(bytes(piece) for piece in _choice_native.pack(EXAMPLES)))
TEXT = struct.unpack("<q", NATIVE[32:40])[0]
COLUMNS = 40 + TEXT


def read_llmc(data: bytes) -> tr.ChoiceExamples:
    return _choice_llmc.unpack(Path("f"), np.frombuffer(data, np.uint8))


def read_native(data: bytes) -> tr.ChoiceExamples:
    return _choice_native.unpack(Path("f"), np.frombuffer(data, np.uint8))


def sound(examples: tr.ChoiceExamples) -> None:
    """What was read can be used."""
    some = as_lists(examples)
    assert all(context and 0 <= label < len(choices) and all(choices) for context, choices, label in some)
    assert sum(len(piece) for context, choices, _ in some for piece in (context, *choices)) == len(examples.ids)
    most = int(examples.counts.max())
    loader = tr.EvalLoader(examples, batch_rows=most, seq_len=len(examples.ids))
    assert sum(batch.num_targets for batch in loader) == sum(len(c) for _, choices, _ in some for c in choices)


def survives(read: Callable[[bytes], tr.ChoiceExamples], data: bytes) -> bool:
    """Is it read, and then sound? Anything but a FormatError fails."""
    try:
        examples = read(data)
    except FormatError as error:
        text = str(error)
    else:
        sound(examples)
        return True
    assert text.startswith("f: ")
    assert ", expected " in text
    return False


@pytest.mark.parametrize(("read", "good"), [(read_llmc, LLMC), (read_native, NATIVE)], ids=["llmc", "native"])
def test_every_other_length_is_refused(read: Callable[[bytes], tr.ChoiceExamples], good: bytes) -> None:
    assert survives(read, good)
    # of llm.c's header only the first 16 bytes are looked at
    lengths = [n for n in range(len(good)) if read is read_native or n < 20 or n > 1000]
    assert not any(survives(read, good[:length]) for length in lengths)
    assert not any(survives(read, good + bytes(more)) for more in (1, 2, 7, 4096))


def test_every_changed_byte_of_our_own_file_is_found() -> None:
    for at in range(len(NATIVE)):
        data = bytearray(NATIVE)
        data[at] ^= 1 << at % 8
        assert not survives(read_native, bytes(data)), at


def test_numbers_that_are_signed_anew() -> None:
    """Whoever forges a file can forge its checksum: each word of 8 bytes becomes each of some numbers."""
    read = 0
    for at in range(8, len(NATIVE) - 36, 8):
        for number in (0, -1, 1, 5, 255, 2**31, 2**32 - 1, 2**62, -(2**63), 2**63 - 1):
            body = bytearray(NATIVE[:-32])
            body[at : at + 8] = struct.pack("<q", number)
            read += survives(read_native, signed(bytes(body)))
    assert read > 20  # ids, records and sizes of choices may be many things


def test_numbers_of_llmcs_file() -> None:
    for at in [*range(0, 16, 2), *range(1024, len(LLMC), 2)]:
        for number in (0, 1, 2, 3, 5, 30, 256, 32768, 65534, 65535):
            data = bytearray(LLMC)
            data[at : at + 2] = struct.pack("<H", number)
            survives(read_llmc, bytes(data))


@pytest.mark.parametrize(("read", "good"), [(read_llmc, LLMC), (read_native, NATIVE[:-32])], ids=["llmc", "native"])
def test_damage_at_random(read: Callable[[bytes], tr.ChoiceExamples], good: bytes) -> None:
    chance = random.Random(3)
    skipped = 16 if read is read_llmc else 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.choice((chance.randrange(16), chance.randrange(1024 * (skipped > 0), len(data))))
            data[at] = chance.randrange(256)
        survives(read, signed(bytes(data)) if read is read_native else bytes(data))


@pytest.mark.parametrize(
    ("at", "kind", "number", "message"),
    [
        (0, "<i", 20240520, "magic at byte 0: got 20240520, expected 20240522"),
        (4, "<i", 2, "version at byte 4: got 2, expected 1"),
        (8, "<i", 0, "number of examples at byte 8: got 0, expected 1 to 65535"),
        (8, "<i", -5, "number of examples at byte 8: got -5"),
        (8, "<i", 1, "size: got 1092 bytes, expected 1058 for 1 examples"),
        (8, "<i", 3, r"record 2 at byte 1092: got 0 bytes, expected .* the rest of the file, 0 bytes, holds"),
        (12, "<i", 1 << 20, "longest record at byte 12: got 1048576 bytes, expected 30 to 65535"),
        (12, "<i", 32, "record 0 at byte 1024: got 34 bytes, expected an even number from 30 to 32"),
        (1024, "<H", 7, "start mark of record 0 at byte 1024: got 7, expected 65535"),
        (1026, "<H", 35, "record 0 at byte 1024: got 35 bytes, expected an even number"),
        (1028, "<H", 1, "number of record 0 at byte 1028: got 1, expected 0"),
        (1030, "<H", 4, "label of example 0: got 4, expected 0 to 3"),
        (1032, "<H", 3, "choices of record 0 at byte 1032: got 3, expected 4"),
        (1034, "<H", 0, "ids of the context and the choices of record 0: got 0, .*, expected at least 1 each"),
        (1034, "<H", 65535, "ids of the context and the choices of record 0: got 65535, .* and 7 together"),
        (1036, "<H", 65535, "id at byte 1036: got 65535, expected at most 65534"),
    ],
)
def test_what_is_wrong_is_named(at: int, kind: str, number: int, message: str) -> None:
    data = bytearray(LLMC)
    struct.pack_into(kind, data, at, number)
    with pytest.raises(FormatError, match=f"^f: {message}"):
        read_llmc(bytes(data))


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (b"[]", "JSON: got list, expected the keys"),
        (b'{"balance":{}}', "JSON: got \\['balance'\\], expected the keys"),
        (b"{", "JSON at byte 40: got "),
        (b"[" * 5000, "JSON at byte 40: got "),
        (b'{"balance":{},"balance":{}}', "JSON at byte 40: got another form"),
        (b'{"balance": {}}', "JSON at byte 40: got another form"),
        (
            b'{"balance":{},"options":{},"sources":{"path":["../x"],"records":[1],"sha256":["0"],"size":[1]},'
            b'"tokenizer":null}',
            r"sources.path\[0\]: got '../x', expected a relative path",
        ),
        (
            b'{"balance":{},"options":{},"sources":{"path":[],"records":[],"sha256":[],"size":[]},'
            b'"tokenizer":{"fingerprint":"' + b"0" * 64 + b'","name":"x","vocab_size":14}}',
            "id: got 14, expected below 14, the tokenizer's vocabulary",
        ),
    ],
)
def test_json_is_never_believed(about: bytes, message: str) -> None:
    about += b" " * (-len(about) % 8)
    body = NATIVE[:32] + struct.pack("<q", len(about)) + about + NATIVE[COLUMNS:-32]
    with pytest.raises(FormatError, match=f"^f: {message}"):
        read_native(signed(body))


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"TR")
    for name, message in (("pipe", "a pipe"), ("empty", "b''"), ("short", "b'TR'"), (".", "a folder")):
        with pytest.raises(FormatError, match=f"got {message}, expected"):
            tr.open_choices(tmp_path / name)
    with pytest.raises(tr.InputError, match="cannot open"):
        tr.open_choices(tmp_path / "nothing")
    assert tr.verify(tmp_path / "empty")


def test_a_file_that_says_it_is_huge_takes_no_memory() -> None:
    for numbers in ((2**62, 1, 1, 0), (1, 2**61, 1, 0), (1, 2, 2**63 - 1, 0), (1, 2, 3, 2**40)):
        data = b"TRCHOI01" + struct.pack("<4q", *numbers) + bytes(1000)
        assert not survives(read_native, signed(data))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("labels", [1, 4], "label of example 1: got 4, expected 0 to 3"),
        ("labels", [-1, 0], "label of example 0: got -1, expected 0 to 3"),
        ("choice_ends", [1, 8], "choices of example 0: got 1, expected at least 2"),
        ("choice_ends", [8, 8], "choices up to example 1: got 8, expected more than in those before it"),
        ("choice_ends", [4, 7], "last of the choices: got 10 pieces, expected 9"),
        ("piece_ends", [2, 3, 5, 6, 7, 8, 9, 9, 13, 14], "end of piece 7: got 9, expected an id more"),
        ("piece_ends", [2, 3, 5, 6, 7, 8, 9, 10, 12, 13], "end of the last piece: got 13, expected 14"),
        ("sources", [0, 1], "source: got 1, expected one of the 0 sources"),
        ("sources", [-1, 0], "source: got -1, expected one of the 0 sources"),
        ("records", [0, -1], "record: got -1, expected at least 0"),
        ("choice_bytes", [1] * 7 + [0], "bytes of the choices: got 0, expected all above 0, or all 0"),
        ("choice_bytes", [1] * 7 + [-1], "bytes of the choices: got -1"),
    ],
)
def test_columns_that_do_not_fit(column: str, values: list[int], message: str) -> None:
    changed: dict[str, Any] = {column: np.array(values)}
    wrong = replace(EXAMPLES, **changed)
    # the header's number of choices is that of the good columns
    head, *columns = (bytes(piece) for piece in _choice_native.pack(wrong))
    head = head[:16] + struct.pack("<q", 8) + head[24:]
    if column == "choice_ends":
        columns[3] = bytes(8 * 8)
    with pytest.raises(FormatError, match=f"^f: {message}"):
        read_native(signed(head + b"".join(columns)))
