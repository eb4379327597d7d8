"""Verify on corpora that were built: nothing to find on good ones, each change of a source found on the others."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

import tokenriver
from small_corpora import make_corpus, shard_bytes
from tokenriver.errors import InputError, MismatchError
from tokenriver.manifest import read_manifest, write_manifest
from tokenriver.verify import Finding, verify

TEXTS = ["hello world", "zwei", "", "drei\ndrei", "ünï 漢字 🙂", "<|endoftext|> is text", "a" * 3000, "\ud800 lone"]


def _rows(texts: list[str]) -> bytes:
    good = [json.dumps({"text": text}).encode() for text in texts]
    return b"\n".join([*good[:3], b"not json", b"", b'{"text": 3}', *good[3:]]) + b"\n"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(_rows(TEXTS))
    (folder / "deep" / "b.jsonl.gz").write_bytes(gzip.compress(_rows(TEXTS[::-1]) * 3))
    (folder / "deep" / "c.jsonl.zst").write_bytes(zstandard.compress(_rows(TEXTS) * 2))
    return folder


def _build(inputs: Path, out: Path, options: Mapping[str, Any] | None = None) -> Path:
    tokenriver.build(inputs, out, workers=1, max_bad=0.9, **{"tokenizer": "byte", **(options or {})})
    return out


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gpt2": {"tokenizer": "gpt2"},
    "eos before": {"framing": "eos-before"},
    "no framing": {"framing": "none"},
    "many shards": {"shard_tokens": 300},
    "many units": {"unit_bytes": 1024},
    "val by hash": {"val_fraction": 0.4},
    "val by ids": {"val_tokens": 50},
    "stopped": {"max_tokens": 200},
    "stopped in units": {"max_tokens": 200, "unit_bytes": 1024},
    "filtered": {"filter": "length:min_chars=5,max_ids=2000", "max_document_tokens": 12},
    "without duplicates": {"filter": "exact-dedup", "unit_bytes": 1024},
    "without duplicates and stopped": {"filter": "exact_dedup", "max_tokens": 50, "unit_bytes": 1024},
    "filtered and stopped": {"filter": "length:min_chars=5", "max_tokens": 40, "unit_bytes": 1024},
    "filtered without framing": {"filter": "length:max_ids=5", "framing": "none"},
    "llmc": {"like": "llmc", "val_tokens": 77, "shard_tokens": 1001},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_good_corpus_has_no_findings(inputs: Path, tmp_path: Path, name: str) -> None:
    out = _build(inputs, tmp_path / "c", OPTIONS[name])
    assert verify(out) == []
    assert verify(out, against_inputs=True, inputs_root=inputs) == []


def test_a_filter_of_length_is_asked_again(inputs: Path, tmp_path: Path) -> None:
    """`zwei` was dropped by a bound; under another bound it is missed, or others are too many."""
    out = _build(inputs / "a.jsonl", tmp_path / "c", {"filter": "length:min_chars=5"})
    manifest = read_manifest(out)

    def against(bound: int) -> list[Finding]:
        filters = [{"name": "length", "parameters": {"min_chars": bound}}]
        write_manifest(out, replace(manifest, options={**manifest.options, "filters": filters}))
        return verify(out, against_inputs=True, inputs_root=inputs)

    assert against(5) == []
    assert [one.got for one in against(4)] == ["no document of the corpus"]
    assert [one.expected for one in against(10)] == ["none: min_chars drops it"] * 3
    balance = {**manifest.balance, "documents": {**manifest.balance["documents"], "filtered": {"min_chars": 2}}}
    write_manifest(out, replace(manifest, balance=balance))
    assert [(one.got, one.expected) for one in verify(out, against_inputs=True, inputs_root=inputs)] == [
        ("1", "2, those of the balance")
    ]


def test_text_with_a_separator(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_bytes(b"one\n\ntwo\n\n\n\nthree" * 50)
    for separator in ("blank-line", "t", None):
        out = tmp_path / f"c{separator}"
        tokenriver.build(path, out, separator=separator, tokenizer="byte")
        assert verify(out, against_inputs=True) == [], "the inputs lie beside the corpus"
    path.write_bytes(b"one\n\ntwo\n\n\n\nthree" * 49 + b"one\n\ntwo\n\n\n\nthred")
    for name in ("cblank-line", "ct", "cNone"):
        found = verify(tmp_path / name, against_inputs=True)
        assert len(found) == 1
        assert found[0].path == str(path)
        assert "text at byte" in found[0].what


def test_an_append_is_compared_with_both_inputs(inputs: Path, tmp_path: Path) -> None:
    out = _build(inputs / "a.jsonl", tmp_path / "c")
    _build(inputs / "deep" / "b.jsonl.gz", out, {"append": True})
    with pytest.raises(InputError, match=r"b\.jsonl\.gz: got no such input below"):
        verify(out, against_inputs=True, inputs_root=inputs)
    (inputs / "b.jsonl.gz").write_bytes((inputs / "deep" / "b.jsonl.gz").read_bytes())
    assert verify(out, against_inputs=True, inputs_root=inputs) == []


def _changed(inputs: Path, old: bytes, new: bytes) -> None:
    path = inputs / "a.jsonl"
    data = path.read_bytes()
    assert old in data
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "what", "got", "expected"),
    [
        (b"zwei", b"zwAi", "record 1: text at byte 2", "'ei'", "'Ai'"),
        (b'"zwei"', b'"zw"  ', "record 1: text at byte 2", "'ei'", "''"),
        (b"not json", b'{"text":"n"}'[:8], "", "", ""),
    ],
)
def test_a_changed_text_is_found(
    inputs: Path, tmp_path: Path, old: bytes, new: bytes, what: str, got: str, expected: str
) -> None:
    out = _build(inputs, tmp_path / "c")
    _changed(inputs, old, new)
    found = verify(out, against_inputs=True, inputs_root=inputs)
    path = str(inputs / "a.jsonl")
    assert found == ([Finding(path, what, got, expected)] if what else [])


def test_a_document_too_many_and_one_too_few_are_found(inputs: Path, tmp_path: Path) -> None:
    out = _build(inputs, tmp_path / "c")
    _changed(inputs, b'{"text": "zwei"}', b'{"text": 123456}')
    found = verify(out, against_inputs=True, inputs_root=inputs)
    assert [(f.path, f.what, f.got) for f in found] == [(str(out), "document of a.jsonl, record 1", "there")]
    (inputs / "a.jsonl").write_bytes(_rows(TEXTS).replace(b'{"text": 3}\n', b'{"text":""}\n'))
    assert verify(out, against_inputs=True, inputs_root=inputs) == [], "an empty text gives no document either"
    (inputs / "a.jsonl").write_bytes(_rows(TEXTS).replace(b'{"text": 3}\n', b'{"text"\n:3}\n'))
    assert verify(out, against_inputs=True, inputs_root=inputs) != [], "records are counted by rows"
    (inputs / "a.jsonl").write_bytes(_rows(TEXTS).replace(b'{"text": ""}', b'{"text":"n"}'))
    found = verify(out, against_inputs=True, inputs_root=inputs)
    assert [(f.what, f.got, f.expected) for f in found] == [("record 2", "no document of the corpus", "'n'")]


def test_a_source_that_is_gone_or_of_another_size_is_an_error(inputs: Path, tmp_path: Path) -> None:
    out = _build(inputs, tmp_path / "c")
    with pytest.raises(InputError, match=r"a\.jsonl: got no such input below"):
        verify(out, against_inputs=True)
    with (inputs / "a.jsonl").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(InputError, match=r"a\.jsonl: size: got \d+ bytes, expected \d+; it was changed"):
        verify(out, against_inputs=True, inputs_root=inputs)


def test_ids_that_are_not_the_text_are_found(inputs: Path, tmp_path: Path) -> None:
    """A corpus that is consistent in itself and does not say what its source says."""
    folder = tmp_path / "c"
    manifest = make_corpus(folder, {"train": [[[31373, 995, 50256], [89, 89, 50256]]], "val": [[[31373, 50256]]]})
    rows = b'{"text":"hello world"}\n{"text":"zwei"}\n{"text":"hello"}\n'
    (tmp_path / "a.jsonl").write_bytes(rows)
    write_manifest(folder, replace(manifest, sources=(replace(manifest.sources[0], size=len(rows)),)))
    found = verify(folder, against_inputs=True)
    assert [(f.what.partition(":")[0], f.path) for f in found] == [("record 1", str(tmp_path / "a.jsonl"))]
    for framing, words in (("eos-before", "first id"), ("none", "text at byte 11")):
        write_manifest(folder, replace(read_manifest(folder), framing=framing))
        assert words in verify(folder, against_inputs=True)[0].what
    write_manifest(folder, replace(read_manifest(folder), framing="chatml"))
    with pytest.raises(InputError, match="framing: got 'chatml'"):
        verify(folder, against_inputs=True)


def test_without_the_right_tokenizer_nothing_is_compared(inputs: Path, tmp_path: Path) -> None:
    out = _build(inputs, tmp_path / "c")
    with pytest.raises(MismatchError, match="fingerprint"):
        verify(out, against_inputs=True, inputs_root=inputs, tokenizer="gpt2")
    manifest = read_manifest(out)
    assert manifest.tokenizer is not None
    for name in ("no_such_encoding", "os.path"):
        write_manifest(out, replace(manifest, tokenizer=replace(manifest.tokenizer, name=name)))
        with pytest.raises(InputError):
            verify(out, against_inputs=True, inputs_root=inputs)
    assert verify(out, against_inputs=True, inputs_root=inputs, tokenizer="byte") == []


def test_bad_rows_are_counted_in_their_list(inputs: Path, tmp_path: Path) -> None:
    out = _build(inputs, tmp_path / "c")
    (out / "bad_rows.jsonl").unlink()
    assert [(Path(f.path).name, f.what, f.got, f.expected) for f in verify(out)] == [
        ("bad_rows.jsonl", "bad rows listed", "0", "12")
    ]


def test_what_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got no such file"):
        verify(tmp_path / "none")
    (tmp_path / "b" / ".build").mkdir(parents=True)
    assert [f.what for f in verify(tmp_path / "b")] == [
        f"{tmp_path / 'b'}: not committed: this is an unfinished build; run the same build again"
    ]
    with pytest.raises(InputError, match="got shards without a manifest"):
        verify(tmp_path, against_inputs=True)


def test_shards_without_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "x_train_000000.bin").write_bytes(shard_bytes([1, 2]))
    (tmp_path / "x_val_000000.bin").write_bytes(shard_bytes([1, 2]))
    assert verify(tmp_path) == []
    (tmp_path / "x_train_000001.bin").write_bytes(shard_bytes([1, 2])[:-2])
    (tmp_path / "x_val_000000.bin").write_bytes(shard_bytes([1, 2]) + b"\0\0")
    found = [(Path(f.path).name, f.what, f.got, f.expected) for f in verify(tmp_path)]
    assert found == [
        ("x_train_000001.bin", "size", "1026 bytes", "1028 (2 uint16 ids after the header)"),
        ("x_val_000000.bin", "size", "1030 bytes", "1028 (2 uint16 ids after the header)"),
    ]
    assert str(verify(tmp_path)[0]).endswith("size: got 1026 bytes, expected 1028 (2 uint16 ids after the header)")


def test_a_finding_is_what_an_error_says(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(shard_bytes([1, 2])[:4] + b"\x02" + shard_bytes([1, 2])[5:])
    assert verify(path) == [Finding(str(path), "version at byte 4", "2", "1")]
