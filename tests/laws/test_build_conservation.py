"""Law 1 for the build, against a reference of lists and loops: every row of every input is a document, skipped by a
rule, dropped by a filter, or a listed bad row; every id of every document that stays is in exactly one split, in order,
or counted as beyond max_tokens."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver
from fault_harness import begin_shards_early
from naive_builds import OPTIONS, SPLITS, Input, Wanted, compare, naive, some_inputs
from small_builds import EOS, QuickDisk, files_of, small_build
from tokenriver import files
from tokenriver.errors import InputError, LimitError


@pytest.fixture(autouse=True)
def _quick_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", QuickDisk())
        yield


FRAMINGS = {"eos-after": (None, EOS), "eos-before": (EOS, None), "none": (None, None)}


def conserves(inputs: list[Input], wanted: Wanted, unit_bytes: int, framing: str, early: bool) -> None:
    """Build in a folder of its own, and compare all of it."""
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "in").mkdir()
        paths = [one.write(folder / "in") for one in inputs]
        wanted = replace(wanted, before=FRAMINGS[framing][0], after=FRAMINGS[framing][1])
        expected = naive(inputs, wanted)
        options = {
            "framing": framing,
            "separator": "|",
            "max_tokens": wanted.max_tokens,
            "val_tokens": wanted.val_tokens,
            "val_fraction": wanted.val_fraction,
            "shard_tokens": wanted.shard_tokens,
            "format": "llmc" if wanted.exact else "native",
            "unit_bytes": unit_bytes,
            "max_bad": 1.0,
            "filter": wanted.filter,
            "max_document_tokens": wanted.max_document_tokens,
        }
        if not expected.splits and not expected.dropped:
            with pytest.raises(InputError, match="none with a document"):
                small_build(paths, folder / "out", **options)
            return
        if "train" not in expected.splits:
            with pytest.raises(LimitError, match="nothing to train on"):
                small_build(paths, folder / "out", **options)
            return
        with pytest.MonkeyPatch.context() as patch:
            if early:
                begin_shards_early(patch)
            expected.bad = _read_bad(expected.bad, folder / "out", paths, options)
        compare(folder / "out", expected)
        assert tokenriver.verify(folder / "out", against_inputs=True, inputs_root=folder / "in") == []
        _balanced(folder / "out", len(expected.dropped))
    finally:
        shutil.rmtree(folder)


def _read_bad(
    bad: list[dict[str, object]], out: Path, paths: list[Path], options: Mapping[str, object]
) -> list[dict[str, object]]:
    """Build; with max_tokens the bad rows are those of the units that were needed, a beginning of all."""
    report = small_build(paths, out, **options)
    listed = sum(report.balance["bad_rows"].values())
    assert listed == len(bad) or options["max_tokens"] is not None
    return bad[:listed]


def _balanced(out: Path, dropped: int) -> None:
    manifest = tokenriver.open_corpus(out).manifest
    assert manifest is not None
    ids, documents = manifest.balance["ids"], manifest.balance["documents"]
    assert ids["text"] + ids["framing"] == sum(ids["kept"].values()) + ids["beyond_max_tokens"]
    assert documents["beyond_max_tokens"] <= dropped
    assert bool(documents["beyond_max_tokens"]) <= bool(dropped)


ASKED = (
    some_inputs(),
    OPTIONS,
    SPLITS,
    st.sampled_from([1024, 1500, 9000]),
    st.sampled_from(sorted(FRAMINGS)),
    st.booleans(),
)


@settings(max_examples=120)
@given(*ASKED)
def test_every_document_is_somewhere(
    inputs: list[Input], wanted: Wanted, split: tuple[int | None, float], unit_bytes: int, framing: str, early: bool
) -> None:
    conserves(inputs, replace(wanted, val_tokens=split[0], val_fraction=split[1]), unit_bytes, framing, early)


@pytest.mark.slow
@settings(max_examples=2000)
@given(*ASKED)
def test_every_document_is_somewhere_at_length(
    inputs: list[Input], wanted: Wanted, split: tuple[int | None, float], unit_bytes: int, framing: str, early: bool
) -> None:
    conserves(inputs, replace(wanted, val_tokens=split[0], val_fraction=split[1]), unit_bytes, framing, early)


@settings(max_examples=25)
@given(some_inputs(), st.integers(1, 4), st.sampled_from([0.0, 0.3]), st.booleans())
def test_an_appended_river_is_that_of_a_one_shot_build(
    inputs: list[Input], first: int, val_fraction: float, once: bool
) -> None:
    """Documents and ids; the shards are cut at the seam, and sources are named from each build's own folder."""
    first = min(first, len(inputs))
    folder = Path(tempfile.mkdtemp())
    try:
        paths = [one.write(folder) for one in inputs]
        wanted = Wanted(val_fraction=val_fraction, once=once)
        options = {"separator": "|", "val_fraction": val_fraction, "max_bad": 1.0, "filter": wanted.filter}
        if "train" not in naive(inputs[:first], wanted).splits:
            return
        small_build(paths[:first], folder / "out", **options)
        if inputs[first:]:
            train = naive(inputs, wanted).splits["train"]
            if all(source < first for shard in train for _, _, source in shard):
                return
            old = files_of(folder / "out")
            small_build(paths[first:], folder / "out", append=True, **options)
            now = files_of(folder / "out")
            assert all(now[name] == data for name, data in old.items() if name.endswith((".bin", ".docs")))
        expected = naive(inputs, wanted)
        for split, shards in expected.splits.items():
            corpus = tokenriver.open_corpus(folder / "out", split=split)
            wanted_documents = [document for shard in shards for document in shard]
            assert corpus.num_documents == len(wanted_documents)
            for number, (ids, record, source) in enumerate(wanted_documents):
                assert corpus.document(number).tolist() == ids
                assert corpus.source(number) == (inputs[source].name, record)
        assert tokenriver.verify(folder / "out") == []
    finally:
        shutil.rmtree(folder)
