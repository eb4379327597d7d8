"""docs/formats/ of Megatron, minimind, nanotron, meta.pkl and llm.c's tokenizer, against the code."""

import re
from pathlib import Path

import numpy as np

from doc_tables import cells, value
from made_contents import made_content, write_shards
from tokenriver.formats import _megatron_index, _meta, megatron, minimind, nanotron
from tokenriver.tokenizers import byte, llmc

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "formats"
DOCS = [[7, 1], [], list(range(300)), [9, 8, 7]]
IDS = [i for doc in DOCS for i in doc]
ENDS = [2, 2, 302, 305]


def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_a_megatron_index_is_read_by_its_table(tmp_path: Path) -> None:
    (written,) = write_shards(megatron, tmp_path, [made_content(IDS, ENDS)])
    data = written.path.with_suffix(".idx").read_bytes()
    rows = cells(_text("megatron"), "## The index")
    assert value(rows[5][0]) == _megatron_index.HEADER_BYTES
    magic, version, code, sequences, entries = (data[int(row[0]) : int(row[0]) + int(row[1])] for row in rows[:5])
    assert magic == b"MMIDIDX\0\0"
    s, d = int.from_bytes(sequences, "little"), int.from_bytes(entries, "little") - 1
    assert (int.from_bytes(version, "little"), s, d) == (1, 3, 4)
    places = [(value(row[0], S=s, D=d), value(row[1], S=s, D=d), row[2]) for row in rows[5:]]
    lengths, offsets, documents = (
        np.frombuffer(data[at : at + size], np.dtype(kind)).tolist() for at, size, kind in places[:3]
    )
    assert (lengths, offsets, documents) == ([2, 300, 3], [0, 4, 604], [0, 1, 1, 2, 3])
    assert places[3][0] == len(data)
    codes = {int(row[0]): row[1] for row in cells(_text("megatron"), "| code | dtype")}
    assert codes == _megatron_index.CODES
    assert codes[code[0]] == "uint16"


def test_a_token_stream_is_read_by_its_tables(tmp_path: Path) -> None:
    (written,) = write_shards(minimind, tmp_path, [made_content(IDS, ENDS)])
    (ids,) = cells(_text("minimind"), "## `tokens.bin`")
    assert written.num_bytes == value(ids[1], N=len(IDS))
    data = (tmp_path / "doc_lengths.npy").read_bytes()
    rows = cells(_text("minimind"), "## `doc_lengths.npy`")
    assert rows[0][2].endswith(f"`{data[:6].hex(' ')}`")
    assert data[int(rows[1][0]) :][: int(rows[1][1])] == b"\x01\x00"
    header = int.from_bytes(data[int(rows[2][0]) :][: int(rows[2][1])], "little")
    begin = value(rows[4][0], H=header)
    assert begin % 64 == 0
    assert np.frombuffer(data[begin:], "<i8").tolist() == [2, 0, 300, 3]
    assert len(data) - begin == value(rows[4][1], D=len(DOCS))


def test_datatroves_files_are_those_of_the_table(tmp_path: Path) -> None:
    write_shards(nanotron, tmp_path, [made_content(IDS, ENDS)])
    suffixes = [row[0].strip("`").removeprefix("NAME.ds") for row in cells(_text("nanotron"), "# nanotron")]
    assert suffixes == ["", nanotron.INDEX, ".metadata", nanotron.LOSS]
    path = tmp_path / "tokens_00000_unshuffled.ds"
    assert "`NAME_00000_unshuffled.ds`" in _text("nanotron")
    assert sorted(tmp_path.iterdir()) == [path.with_name(path.name + suffix) for suffix in suffixes[:3]]
    assert np.fromfile(f"{path}.index", "<u8").tolist() == ENDS
    assert Path(f"{path}.metadata").read_text() == "gpt2|2\n305\n305 T"
    assert f"over {nanotron.MAX_SHARDS} shards" in _text("nanotron")


def test_the_opcodes_are_those_of_the_table() -> None:
    opcodes = [row[0] for row in cells(_text("nanogpt-meta"), "| opcodes")]
    assert {name for cell in opcodes for name in re.findall("`([A-Z0-9_]+)`", cell)} == set(_meta._STEPS)
    assert f"A file of {_meta.MAX_BYTES} bytes" in _text("nanogpt-meta")


def test_a_tokenizer_file_is_read_by_its_table(tmp_path: Path) -> None:
    llmc.write(tmp_path / "a.bin", byte.load("byte"))
    data = (tmp_path / "a.bin").read_bytes()
    rows = cells(_text("llmc-tokenizer"), "| offset")
    numbers = [int.from_bytes(data[int(row[0]) :][: int(row[1])], "little") for row in rows[:4]]
    assert numbers == [llmc.MAGIC, 2, 257, 256]
    assert str(llmc.MAGIC) in rows[0][3]
    assert not any(data[int(rows[4][0]) : int(rows[5][0])])
    assert int(rows[5][0]) == llmc.HEADER_BYTES
    assert f"V is at most {llmc.MAX_VOCAB}" in _text("llmc-tokenizer")
    for fact in (llmc.GPT2_END, llmc.GPT2_SIZE):
        assert str(fact) in _text("llmc-tokenizer")


def test_what_they_say_of_limits_is_so() -> None:
    assert megatron.MAX_DOCUMENT_TOKENS == 2**31 - 1
    written = re.search(r"does it; ([a-z0-9, \n]+) or\n?\s*([a-z0-9]+)\. The index", _text("megatron"))
    assert written is not None
    assert [*re.split(r",\s+", written[1]), written[2]] == list(megatron.DTYPES)
    assert minimind.DTYPES == ("uint16",)
