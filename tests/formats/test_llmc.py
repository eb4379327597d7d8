"""llm.c shards: what is written is read, and a file that lies about itself is refused with field and value."""

import hashlib
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_contents import made_content, made_target, write_shards
from small_corpora import ids_of, shard_bytes
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import llmc

IDS = {"uint16": [0, 1, 50256, 65535], "uint32": [0, 65536, 128000, 2**32 - 1]}


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_written_by_hand_is_read(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes(IDS[dtype], dtype))
    reader = llmc.open_reader(path)
    assert ids_of(reader) == IDS[dtype]
    assert (reader.num_tokens, reader.dtype, reader.doc_ends, reader.origins) == (4, np.dtype(dtype), None, None)
    assert reader.ids is not None
    assert reader.ids.tolist() == IDS[dtype]
    assert not reader.ids.flags.writeable
    assert llmc.sniff(path)


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_written_is_the_bytes_written_by_hand(tmp_path: Path, dtype: str) -> None:
    contents = [made_content(IDS[dtype], dtype=dtype, block=3), made_content([7], dtype=dtype)]
    written = write_shards(llmc, tmp_path, contents, dtype)
    names = ["tokens_train_000000.bin", "tokens_train_000001.bin"]
    assert [file.path for file in written] == [tmp_path / name for name in names]
    for file, ids in zip(written, (IDS[dtype], [7]), strict=True):
        data = shard_bytes(ids, dtype)
        assert file.path.read_bytes() == data
        assert (file.num_bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert [shard.path for shard in llmc.find(tmp_path)] == [tmp_path / name for name in names]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


def test_the_header_has_three_numbers_and_zeros() -> None:
    assert llmc.header(7, "uint16") == struct.pack("<3i", 20240520, 1, 7) + bytes(1012)
    assert llmc.header(2**31 - 1, "uint32") == struct.pack("<3i", 20240801, 7, 2**31 - 1) + bytes(1012)
    for count in (0, -1, 2**31, 2**63):
        with pytest.raises(LimitError, match=f"num_tokens: got {count}, expected 1 to 2147483647"):
            llmc.header(count, "uint16")


def test_an_array_outlives_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes(range(5000)))
    reader = llmc.open_reader(path)
    ids = reader.read(1000, 1005)
    reader.close()
    path.unlink()
    assert ids.tolist() == [1000, 1001, 1002, 1003, 1004]
    assert reader.ids is not None
    assert (len(reader.ids), len(reader.read(0, 5)), reader.windows(np.array([0]), 5)) == (0, 0, [])


def test_a_reader_pickles_as_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes(range(5000)))
    data = pickle.dumps(llmc.open_reader(path, dtype="u2"))
    assert len(data) < 500
    assert ids_of(pickle.loads(data)) == list(range(5000))


# the cases of a field report: each is refused with the field, what was found and what was expected
LIES = {
    "90 of 100": (shard_bytes(range(100))[:-20], "size: got 1204 bytes, expected 1224"),
    "110 for 100": (shard_bytes(range(100)) + bytes(20), "size: got 1244 bytes, expected 1224"),
    "odd": (shard_bytes(range(100)) + b"\0", "size: got 1225 bytes"),
    "32-bit ids under the 16-bit magic": (
        struct.pack("<3i", 20240520, 1, 4) + shard_bytes(IDS["uint32"], "uint32")[12:],
        "size: got 1040 bytes, expected 1032",
    ),
    "16-bit ids under the 32-bit magic": (
        struct.pack("<3i", 20240801, 7, 4) + shard_bytes([1, 2, 3, 4])[12:],
        "size: got 1032 bytes, expected 1040",
    ),
    "version 2": (struct.pack("<3i", 20240520, 2, 1).ljust(1026, b"\0"), "version at byte 4: got 2, expected 1"),
    "version 1 of llama": (struct.pack("<3i", 20240801, 1, 1).ljust(1028, b"\0"), "got 1, expected 7"),
    "negative count": (struct.pack("<3i", 20240520, 1, -1).ljust(1026, b"\0"), "ids at byte 8: got -1"),
    "no ids": (struct.pack("<3i", 20240520, 1, 0).ljust(1024, b"\0"), "ids at byte 8: got 0, expected at least 1"),
    "huge count": (struct.pack("<3i", 20240520, 1, 2**31 - 1).ljust(1026, b"\0"), "expected 4294968318"),
    "huge count, 32-bit": (struct.pack("<3i", 20240801, 7, 2**31 - 1).ljust(1028, b"\0"), "expected 8589935612"),
    "evaluation file": (struct.pack("<3i", 20240522, 1, 1).ljust(1026, b"\0"), "llm.c evaluation file"),
    "tokenizer file": (struct.pack("<3i", 20240328, 2, 1).ljust(1026, b"\0"), "llm.c tokenizer file"),
    "big-endian": (struct.pack(">3i", 20240520, 1, 1).ljust(1026, b"\0"), "magic at byte 0"),
    "empty": (b"", "size: got 0 bytes"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lying_file_is_refused_with_the_field(tmp_path: Path, name: str) -> None:
    data, words = LIES[name]
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        llmc.open_reader(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_a_shard_of_more_than_2_gib_is_read_beyond_them(tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.write(struct.pack("<3i", 20240520, 1, 1_200_000_000))
        file.truncate(1024 + 2 * 1_200_000_000)
        file.seek(1024 + 2 * 1_100_000_000)
        file.write(struct.pack("<3H", 11, 22, 33))
    reader = llmc.open_reader(path)
    assert reader.read(1_099_999_999, 1_100_000_004).tolist() == [0, 11, 22, 33, 0]
    window = b"".join(reader.windows(np.array([1_100_000_000]), 3))
    assert np.frombuffer(window, "<u2").tolist() == [11, 22, 33]


def test_a_dtype_that_is_not_the_files_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes([1, 2]))
    for name in ("uint16", "numpy.uint16", "np.uint16", "u2", "<u2"):
        assert llmc.open_reader(path, dtype=name).num_tokens == 2
    for name in ("uint32", "int16", "uint8"):
        with pytest.raises(FormatError, match=f"dtype: got uint16 by its magic, expected {name}"):
            llmc.open_reader(path, dtype=name)
    for name in ("uint23", "float32", "U2", ">u2", ""):
        with pytest.raises(InputError, match="dtype: got"):
            llmc.open_reader(path, dtype=name)


def test_a_writer_refuses_what_the_header_cannot_count(tmp_path: Path) -> None:
    for count in (0, 2**31):
        content = replace(made_content([1]), num_tokens=count)
        with pytest.raises(LimitError, match=f"num_tokens: got {count}, expected 1 to 2147483647"):
            llmc.write(tmp_path / "a.bin", content, made_target())
    assert list(tmp_path.iterdir()) == []
