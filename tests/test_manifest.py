"""The manifest: one canonical form, one digest, and nothing in it that is taken on trust."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_corpora import TOKENIZER, make_corpus, sign
from tokenriver.errors import FormatError, InputError
from tokenriver.manifest import (
    FileInfo,
    Manifest,
    ShardInfo,
    SourceInfo,
    index_name,
    read_manifest,
    write_manifest,
)

Tree = Any
"""Parsed JSON of any form."""
SHARD = ShardInfo("tokens_train_000000.bin", "train", 10, 2, 1044, "a" * 64, 64, "b" * 64)
SOURCE = SourceInfo("web/a.jsonl", 100, "c" * 64, "jsonl", "", 3)
MANIFEST = Manifest(
    "native",
    TOKENIZER,
    "eos-after",
    "uint16",
    {"text_field": "text", "val_fraction": 0.1, "plans": ["d" * 64]},
    (SOURCE, SourceInfo("b.txt.zst", 7, None, "text", "zstd", 0)),
    (SHARD, replace(SHARD, file="tokens_val_000000.bin", split="val")),
    {"ids": {"kept": {"train": 10, "val": 10}}},
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    found = read_manifest(tmp_path)
    assert found == MANIFEST
    assert found.splits == ("train", "val")
    assert found.split("val") == MANIFEST.shards[1:]
    assert found.split("test") == ()


def test_the_file_is_canonical_ascii_json_with_columns(tmp_path: Path) -> None:
    write_manifest(tmp_path, replace(MANIFEST, sources=(replace(SOURCE, path="ü/\udc80.txt"),)))
    data = (tmp_path / "manifest.json").read_bytes()
    content = json.loads(data)
    assert data.isascii()
    assert data == json.dumps(content, sort_keys=True, indent=1).encode() + b"\n"
    assert content["shards"]["file"] == ["tokens_train_000000.bin", "tokens_val_000000.bin"]
    assert content["version"] == 1
    zeroed = data.replace(content["digest"].encode(), b"0" * 64)
    assert content["digest"] == hashlib.sha256(zeroed).hexdigest()
    assert read_manifest(tmp_path).sources[0].path == "ü/\udc80.txt"


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "manifest.json"
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises(FormatError):
            read_manifest(tmp_path)


def test_every_cut_and_every_appended_byte_is_found(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "manifest.json"
    data = path.read_bytes()
    for damaged in [
        *(data[:length] for length in range(len(data))),
        *(data + more for more in (b" ", b"\n", b"{}", b"\0")),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(FormatError):
            read_manifest(tmp_path)


def _put(value: object, *keys: str | int) -> Callable[[Tree], None]:
    """A change: content[key][key]... = value."""

    def change(content: Tree) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def _drop(*keys: str) -> Callable[[Tree], None]:
    def change(content: Tree) -> None:
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


def _signed(tmp_path: Path, change: Callable[[Tree], None]) -> str:
    """The error for a manifest whose digest is right and whose content is not."""
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_bytes())
    change(content)
    path.write_bytes(sign(content))
    with pytest.raises(FormatError) as caught:
        read_manifest(tmp_path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_signing_alone_is_no_fault(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "manifest.json"
    assert sign(json.loads(path.read_bytes())) == path.read_bytes()


@pytest.mark.parametrize("version", [0, 2, "1", True, None, 1.0])
def test_another_version_is_refused(tmp_path: Path, version: object) -> None:
    text = _signed(tmp_path, _put(version, "version"))
    assert f"version: got {version!r}, expected 1" in text


HOSTILE_NAMES = [
    "../x.bin",
    "/etc/passwd",
    "a/../../b",
    "a/b/c.bin",
    "a/.b.bin",
    ".a/b.bin",
    "../b.bin",
    "./b.bin",
    "a//b.bin",
    "a/",
    "/b.bin",
    "a/..",
    "a\0b",
    "a\\b",
    "C:x",
    ".hidden",
    "..",
    ".",
    "",
    "x" * 201,
    "tokens\u202e.bin",
    "t\u043ekens.bin",
    "a b.bin",
    "a\n.bin",
    "con:",
    "~root",
    "a.bin\n",
    5,
    None,
    ["a.bin"],
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=repr)
def test_hostile_shard_names_are_refused(tmp_path: Path, name: object) -> None:
    text = _signed(tmp_path, _put(name, "shards", "file", 0))
    assert "shards.file[0]" in text


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "a//b", "", ".", "a/./b", "a/", "a\0", 3, None])
def test_a_source_outside_the_inputs_is_refused(tmp_path: Path, path: object) -> None:
    assert "sources.path[1]" in _signed(tmp_path, _put(path, "sources", "path", 1))


@pytest.mark.parametrize(
    "names", [("a.bin", "a.bin"), ("a.bin", "A.BIN"), ("a.bin", "a.docs"), ("manifest.json", "b.bin")], ids=str
)
def test_two_files_of_one_name_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    assert "twice" in _signed(tmp_path, _put(list(names), "shards", "file"))


@pytest.mark.parametrize(
    ("table", "field", "values"),
    [
        ("shards", "num_tokens", [0, -1, 2**63, 2**31, 10.0, True, "10", None]),
        ("shards", "num_documents", [-1, 2**63, False, 2.0]),
        ("shards", "num_bytes", [0, 1043, 1045, -1]),
        ("shards", "sha256", ["a" * 63, "A" * 64, "", None, 7]),
        ("shards", "index_bytes", [63, 65, -1, 0]),
        ("shards", "index_sha256", ["b" * 65, None]),
        ("shards", "split", ["", "Train", "a/b", None, "x" * 65]),
        ("sources", "size", [-1, 2**63, None]),
        ("sources", "sha256", ["", "z" * 64, 0]),
        ("sources", "kind", ["os.path", "../x", None]),
        ("sources", "records", [-1, True]),
    ],
)
def test_each_value_of_a_table_is_checked(tmp_path: Path, table: str, field: str, values: list[object]) -> None:
    for value in values:
        assert field in _signed(tmp_path, _put(value, table, field, 0)), value


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["", None, 3, "x" * 1001]),
        ("fingerprint", ["", "g" * 64]),
        ("vocab_size", [0, -1, 2**32 + 1, None, 50305]),
        ("model_vocab_size", [0, 50256]),
        ("eos_id", [-1, 2**32, True, "1"]),
    ],
)
def test_each_value_of_the_tokenizer_is_checked(tmp_path: Path, field: str, values: list[object]) -> None:
    for value in values:
        text = _signed(tmp_path, _put(value, "tokenizer", field))
        assert "vocab_size" in text if "vocab" in field else field in text


def test_missing_strange_and_uneven_parts_are_refused(tmp_path: Path) -> None:
    for name in (
        "balance",
        "dtype",
        "files",
        "format",
        "framing",
        "options",
        "rivers",
        "shards",
        "sources",
        "tokenizer",
    ):
        assert "expected the keys" in _signed(tmp_path, _drop(name))
    assert "expected the keys" in _signed(tmp_path, _put(1, "extra"))
    assert "expected the keys" in _signed(tmp_path, _drop("shards", "split"))
    assert "an object" in _signed(tmp_path, _put([], "tokenizer"))
    assert "one length" in _signed(tmp_path, _put(["x.bin"], "shards", "file"))
    assert "shards.split" in _signed(tmp_path, _put("train", "shards", "split"))
    for dtype in ("float32", "uint128", "int", "int16", "uint64", None, ["uint16"]):
        assert "dtype" in _signed(tmp_path, _put(dtype, "dtype"))


def _raw(tmp_path: Path, head: str) -> str:
    """The error for a signed file that starts with `head` in front of the digest's line."""
    data = (head + f'\n "digest": "{"0" * 64}",\n "version": 1\n}}\n').encode("utf-8", "surrogateescape")
    (tmp_path / "manifest.json").write_bytes(data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1))
    with pytest.raises(FormatError) as caught:
        read_manifest(tmp_path)
    return str(caught.value)


def test_json_that_surprises_is_refused(tmp_path: Path) -> None:
    assert "twice" in _raw(tmp_path, '{"balance": {"a": 1, "a": 2},')
    assert "NaN" in _raw(tmp_path, '{"balance": NaN,')
    assert "Infinity" in _raw(tmp_path, '{"balance": -Infinity,')
    assert "not the JSON" in _raw(tmp_path, '{"balance": ' + "[" * 200_000 + ",")
    assert "not the JSON" in _raw(tmp_path, '{"balance": ' + "9" * 5000 + ",")
    assert "not the JSON" in _raw(tmp_path, '{"balance": "\x01",')
    assert "not the JSON" in _raw(tmp_path, '{"balance": "\udcff",')
    assert "not the JSON" in _raw(tmp_path, "{,")


def test_a_folder_without_a_manifest_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected the manifest of a corpus"):
        read_manifest(tmp_path)
    (tmp_path / ".build").mkdir()
    with pytest.raises(FormatError, match="not committed: this is an unfinished build"):
        read_manifest(tmp_path)


def test_a_manifest_that_a_reader_would_refuse_is_not_written(tmp_path: Path) -> None:
    for bad in (
        replace(MANIFEST, shards=(replace(SHARD, file="../x"),)),
        replace(MANIFEST, dtype="int16"),
        replace(MANIFEST, files=(FileInfo("manifest.json", 1, "a" * 64),)),
        replace(MANIFEST, rivers={"train": "sampled:"}),
        replace(MANIFEST, shards=(SHARD, SHARD)),
        replace(MANIFEST, shards=(replace(SHARD, num_bytes=1),)),
    ):
        with pytest.raises(FormatError):
            write_manifest(tmp_path, bad)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="cannot create"):
        write_manifest(tmp_path / "missing", MANIFEST)


def test_the_fingerprint_is_that_of_the_rivers_alone() -> None:
    first = MANIFEST.fingerprint
    splits = {"train": [[10, "a" * 64]], "val": [[10, "a" * 64]]}
    text = json.dumps([TOKENIZER.fingerprint, "uint16", splits], separators=(",", ":"))
    assert first == hashlib.sha256(f"tokenriver corpus 1\n{text}".encode()).hexdigest()
    same = (
        replace(MANIFEST, options={}, balance={}, sources=(), framing="none"),
        replace(MANIFEST, shards=MANIFEST.shards[::-1]),
        replace(MANIFEST, shards=tuple(replace(s, file="x" + s.file, index_sha256="e" * 64) for s in MANIFEST.shards)),
        replace(MANIFEST, tokenizer=replace(TOKENIZER, name="other")),
    )
    assert {manifest.fingerprint for manifest in same} == {first}
    third = replace(SHARD, sha256="d" * 64)
    other = (
        replace(MANIFEST, dtype="uint32"),
        replace(MANIFEST, tokenizer=replace(TOKENIZER, fingerprint="f" * 64)),
        replace(MANIFEST, shards=(replace(SHARD, sha256="d" * 64), MANIFEST.shards[1])),
        replace(MANIFEST, shards=(replace(SHARD, num_tokens=11), MANIFEST.shards[1])),
        replace(MANIFEST, shards=(SHARD,)),
        replace(MANIFEST, shards=(SHARD, third, MANIFEST.shards[1])),
        replace(MANIFEST, shards=(third, SHARD, MANIFEST.shards[1])),
        replace(MANIFEST, shards=tuple(replace(s, split="test") for s in MANIFEST.shards)),
    )
    assert len({first, *(manifest.fingerprint for manifest in other)}) == len(other) + 1


def test_the_name_of_an_index() -> None:
    assert index_name("tokens_train_000000.bin") == "tokens_train_000000.docs"
    assert index_name("a.b.bin") == "a.b.docs"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60)
@given(
    options=st.dictionaries(st.text(max_size=10), JSON, max_size=4),
    balance=st.dictionaries(st.text(max_size=5), JSON, max_size=3),
)
def test_any_options_and_balance_come_back(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, Any], balance: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("m")
    manifest = replace(MANIFEST, options=options, balance=balance)
    write_manifest(folder, manifest)
    assert read_manifest(folder) == manifest


FOREIGN = replace(
    MANIFEST,
    format="megatron",
    tokenizer=None,
    dtype="int64",
    shards=(
        replace(SHARD, file="train/a.bin", num_bytes=7, num_documents=0, index_bytes=0, index_sha256=""),
        replace(SHARD, file="val/a.bin", split="val", num_bytes=9, index_bytes=24),
    ),
    files=(FileInfo("train/a.idx", 3, "e" * 64), FileInfo("val/a.idx", 4, "f" * 64)),
    rivers={"train": "sampled:" + "1" * 64, "val": "2" * 64},
)


def test_the_manifest_of_a_converted_corpus(tmp_path: Path) -> None:
    write_manifest(tmp_path, FOREIGN)
    assert read_manifest(tmp_path) == FOREIGN
    content = json.loads((tmp_path / "manifest.json").read_bytes())
    assert content["files"]["file"] == ["train/a.idx", "val/a.idx"]
    assert content["tokenizer"] is None
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        write_manifest(tmp_path, replace(FOREIGN, dtype=dtype))
        assert read_manifest(tmp_path).dtype == dtype


def test_a_river_keeps_its_fingerprint_through_a_conversion() -> None:
    assert FOREIGN.river_fingerprint("train") == "sampled:" + "1" * 64
    assert FOREIGN.river_fingerprint("val") == "2" * 64
    other = replace(FOREIGN, shards=FOREIGN.shards[::-1], dtype="uint32", files=(), format="mds")
    assert other.fingerprint == FOREIGN.fingerprint, "however it is stored"
    changed = replace(FOREIGN, rivers={**FOREIGN.rivers, "val": "3" * 64})
    assert changed.fingerprint != FOREIGN.fingerprint
    text = json.dumps(["sampled:" + "1" * 64, "2" * 64], separators=(",", ":"))
    assert FOREIGN.fingerprint == hashlib.sha256(f"tokenriver corpus 1\n{text}".encode()).hexdigest()
    bare = replace(FOREIGN, rivers={})
    text = json.dumps([None, "int64", {"train": [[10, "a" * 64]]}], separators=(",", ":"))
    assert bare.river_fingerprint("train") == hashlib.sha256(f"tokenriver corpus 1\n{text}".encode()).hexdigest()


@pytest.mark.parametrize(
    "name",
    ["train/a.bin", "TRAIN/a.BIN", "train/a.docs", "val/a.idx", "manifest.json", "Manifest.JSON", "../x", "a/b/c", ""],
)
def test_a_companion_has_a_name_of_its_own_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match=r"twice|files\.file\[0\]"):
        write_manifest(tmp_path, replace(FOREIGN, files=(FileInfo(name, 3, "e" * 64), FOREIGN.files[1])))


@pytest.mark.parametrize(
    "fingerprint", ["", "a" * 63, "A" * 64, "Sampled:" + "a" * 64, "sampled:", None, 5, ["a" * 64]]
)
def test_a_river_that_is_no_fingerprint_is_refused(tmp_path: Path, fingerprint: object) -> None:
    assert "rivers of val.river" in _signed(tmp_path, _put({"train": "a" * 64, "val": fingerprint}, "rivers"))


@pytest.mark.parametrize("value", [[], None, "x"], ids=repr)
@pytest.mark.parametrize("key", ["files", "rivers"])
def test_files_and_rivers_are_objects(tmp_path: Path, key: str, value: object) -> None:
    assert f"manifest.{key}" in _signed(tmp_path, _put(value, key))


COMPANIONS: dict[str, object] = {"file": ["a.idx"], "num_bytes": [1], "sha256": ["a" * 64]}


@pytest.mark.parametrize(
    ("field", "values"), [("file", ["", "a b"]), ("num_bytes", [0, -1, True]), ("sha256", ["", "x"])]
)
def test_each_value_of_a_companion_is_checked(tmp_path: Path, field: str, values: list[object]) -> None:
    for value in values:
        assert f"files.{field}[0]" in _signed(tmp_path, _put({**COMPANIONS, field: [value]}, "files"))
    assert "one length" in _signed(tmp_path, _put({**COMPANIONS, field: []}, "files"))
    assert "expected the keys" in _signed(tmp_path, _put({**COMPANIONS, "more": [1]}, "files"))


def test_a_corpus_written_by_hand_is_accepted(tmp_path: Path) -> None:
    manifest = make_corpus(tmp_path, {"train": [[[1, 2], [3]], [[4]]], "val": [[[5]]]}, "uint32")
    assert read_manifest(tmp_path) == manifest
