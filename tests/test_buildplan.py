"""Options that cannot be meant, framing, and what makes two plans one."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from small_builds import EOS, small_build, some_texts, write_rows
from tokenriver import buildplan
from tokenriver.buildplan import BuildOptions, BuildPlan, check_options, framing_ids, make_plan, plans_of, stored_dtype
from tokenriver.errors import InputError, LimitError
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.manifest import read_manifest
from tokenriver.tokenizers.byte import BYTE
from tokenriver.types import SourceOptions
from tokenriver.units import make_lots

FINE = BuildOptions()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"val_tokens": 0}, "val_tokens: got 0, expected at least 1"),
        ({"max_tokens": -1}, "max_tokens: got -1, expected at least 1"),
        ({"shard_tokens": 0}, "shard_tokens: got 0, expected at least 1"),
        ({"shard_tokens": 2**31}, "shard_tokens: got 2147483648, expected at most 2000000000"),
        ({"unit_bytes": 1023}, "unit_bytes: got 1023, expected at least 1024"),
        ({"val_fraction": -0.1}, "val_fraction: got -0.1, expected at least 0 and below 1"),
        ({"val_fraction": 1.0}, "val_fraction: got 1.0, expected at least 0 and below 1"),
        ({"val_fraction": float("nan")}, "val_fraction: got nan, expected at least 0 and below 1"),
        ({"val_fraction": 0.1, "val_tokens": 5}, "val_fraction and val_tokens: got both, expected one"),
        ({"framing": "eot"}, "framing: got 'eot', expected one of eos-after, eos-before, bos-eos, none"),
        ({"name": ""}, "name: got '', expected 1 to 100"),
        ({"name": ".hidden"}, "name: got '.hidden', expected"),
        ({"name": "-x"}, "name: got '-x', expected"),
        ({"name": "a/b"}, "name: got 'a/b', expected"),
        ({"name": "é"}, "name: got 'é', expected"),
        ({"name": "x" * 101}, "expected 1 to 100"),
    ],
)
def test_options_that_cannot_be_meant(changed: dict[str, Any], says: str) -> None:
    check_options(FINE)
    with pytest.raises(InputError, match=re.escape(says)):
        check_options(replace(FINE, **changed))


@pytest.mark.parametrize(
    ("framing", "expected"),
    [("none", (None, None)), ("eos-after", (None, EOS)), ("eos-before", (EOS, None))],
)
def test_framing_ids(framing: str, expected: tuple[int | None, int | None]) -> None:
    assert framing_ids(framing, BYTE) == expected


def test_framings_that_a_tokenizer_cannot_give() -> None:
    """R014: a boundary is an id of the tokenizer, never a guess."""
    with pytest.raises(InputError, match="has one id, 256, for both"):
        framing_ids("bos-eos", BYTE)
    bare = replace(BYTE, eos_id=None, bos_id=None)
    for framing in ("eos-after", "eos-before", "bos-eos"):
        with pytest.raises(InputError, match="tokenizer 'byte' has no eos id; use framing 'none'"):
            framing_ids(framing, bare)
    with pytest.raises(InputError, match="has no bos id"):
        framing_ids("bos-eos", replace(BYTE, bos_id=None))
    assert framing_ids("bos-eos", replace(BYTE, bos_id=3)) == (3, EOS)


def test_ids_are_stored_as_narrow_as_the_vocabulary_allows() -> None:
    assert [stored_dtype(size) for size in (1, 257, 65536, 65537, 2**20)] == ["uint16"] * 3 + ["uint32"] * 2


def files_in(folder: Path) -> list[InputFile]:
    folder.mkdir(exist_ok=True)
    for number in range(3):
        write_rows(folder / f"{number}.jsonl", some_texts(20, start=number * 100))
    return find_inputs([folder])


def plan_of(files: list[InputFile], options: BuildOptions = FINE) -> BuildPlan:
    return make_plan(files, options.as_dict("uint16"), BYTE)


def test_a_plan_knows_what_determines_a_corpus_and_nothing_else(tmp_path: Path) -> None:
    first = plan_of(files_in(tmp_path / "a"))
    assert first.digest == plan_of(files_in(tmp_path / "b")).digest
    assert str(tmp_path) not in str(first.content)
    changes: list[BuildOptions] = [
        replace(FINE, framing="none"),
        replace(FINE, source="jsonl"),
        replace(FINE, options=SourceOptions(text_field="content")),
        replace(FINE, options=SourceOptions(separator=b"\n")),
        replace(FINE, options=SourceOptions(separator=b"\n", keep_separator=True)),
        replace(FINE, val_fraction=0.1),
        replace(FINE, val_tokens=1),
        replace(FINE, max_tokens=1),
        replace(FINE, shard_tokens=1),
        replace(FINE, unit_bytes=1024),
        replace(FINE, name="other"),
        replace(FINE, exact=True),
    ]
    files = files_in(tmp_path / "a")
    digests = {plan_of(files, options).digest for options in changes}
    digests |= {make_plan(files, FINE.as_dict("uint32"), BYTE).digest}
    digests |= {make_plan(files, FINE.as_dict("uint16"), replace(BYTE, fingerprint="0")).digest}
    assert len(digests | {first.digest}) == len(changes) + 3


def test_a_plan_sees_a_changed_input_by_size_and_edges(tmp_path: Path) -> None:
    files = files_in(tmp_path / "a")
    before = plan_of(files).digest
    data = files[1].path.read_bytes()
    for changed in (data + b"\n", data[:-2] + b"  ", b"X" + data[1:]):
        files[1].path.write_bytes(changed)
        assert plan_of(find_inputs([tmp_path / "a"])).digest != before
    files[1].path.write_bytes(data)
    assert plan_of(find_inputs([tmp_path / "a"])).digest == before


def test_a_lot_is_tagged_by_its_own_inputs(tmp_path: Path) -> None:
    """An input that is replaced leaves the finished units of the others valid; one that is removed moves the numbers of
    those behind it, and with them their tags."""
    files = files_in(tmp_path / "a")

    def tags(files: list[InputFile]) -> list[str]:
        options = replace(FINE, unit_bytes=1024)
        lots = plan_of(files, options).tagged(make_lots(files, options.options, options.unit_bytes))
        return [lot.tag for lot in lots]

    first = tags(files)
    assert len(set(first)) == len(first) > 3
    replaced = [files[0], replace(files[1], size=files[1].size), files[2]]
    files[1].path.write_bytes(files[1].path.read_bytes().replace(b"abc", b"xyz"))
    second = tags(replaced)
    same = [a == b for a, b in zip(first, second, strict=True)]
    assert same[0]
    assert same[-1]
    assert not all(same)
    assert not set(tags(files[1:])) & set(first)


def test_changed_options_are_named(tmp_path: Path) -> None:
    small_build(write_rows(tmp_path / "a.jsonl", some_texts(20)), tmp_path / "out", val_tokens=5)
    manifest = read_manifest(tmp_path / "out")
    files = find_inputs([tmp_path / "a.jsonl"])
    same = replace(FINE, unit_bytes=1024)
    assert buildplan.changed_options(manifest, plan_of(files, same)) == []
    changed = replace(same, framing="none", shard_tokens=7).as_dict("uint16")
    other = make_plan(files, changed, replace(BYTE, fingerprint="0"))
    assert buildplan.changed_options(manifest, other) == [
        "tokenizer: got another than 'byte', which the corpus was built with",
        "framing: got 'none', expected 'eos-after'",
        "shard_tokens: got 7, expected 100000000",
    ]
    assert plans_of(manifest) == [plan_of(files, replace(same, val_tokens=5)).digest]
    assert plans_of(replace(manifest, options={})) == plans_of(replace(manifest, options={"plans": 3})) == []


def test_space_is_estimated_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R045: on the low side, what an earlier run has written counted in."""
    files = [InputFile(tmp_path / "a", "a", 8000, "jsonl", ""), InputFile(tmp_path / "b", "b", 1000, "jsonl", "zstd")]
    monkeypatch.setattr(buildplan, "free_bytes", lambda folder: 5499)
    with pytest.raises(LimitError, match="free space: got 5499 bytes, expected at least 5500; free some"):
        buildplan.check_space(tmp_path, files, "uint16")
    with pytest.raises(LimitError, match="expected at least 11000"):
        buildplan.check_space(tmp_path, files, "uint32")
    (tmp_path / ".build").mkdir()
    (tmp_path / ".build" / "u000000-000000.part").write_bytes(b"x")
    assert buildplan.check_space(tmp_path, files, "uint16") == 5500
