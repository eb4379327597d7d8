"""Names of filters: what is understood, what is refused, what a build does with them and what it records."""

from pathlib import Path

import pytest

import tokenriver
from small_builds import documents, files_of, framed, manifest_of, river, small_build, some_texts, write_rows
from tokenriver.errors import FormatError, InputError, MismatchError
from tokenriver.filtering import NO_FILTERS, Filters, FilterSpec, parse_filters, recorded_rules

pytestmark = pytest.mark.usefixtures("quick_disk")


def test_parameters_are_numbers_where_they_look_like_it() -> None:
    found = parse_filters(["length: min_chars = 1_000, max_ids=2000"], None)
    assert found == Filters((FilterSpec("length", {"min_chars": 1000, "max_ids": 2000}),))
    assert parse_filters("length:min_ids=3", 7) == Filters((FilterSpec("length", {"min_ids": 3}),), 7)
    assert parse_filters((), None) == NO_FILTERS
    assert NO_FILTERS.rules() == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("shortness", "expected one of .*length"),
        ("", "expected one of"),
        ("_length:min_ids=1", "expected one of"),
        ("length", "no bound"),
        ("length:", "NAME:KEY=VALUE"),
        ("length:9", "NAME:KEY=VALUE"),
        ("length:min_ids=1,min_ids=2", "each key once"),
        ("length:min ids=1", "NAME:KEY=VALUE"),
        ("length:min_ids=99999999999999999999", "whole number"),
        (["length:min_ids=1", "length:max_ids=2"], "length twice"),
    ],
)
def test_names_and_parameters_that_are_refused(given: str | list[str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        parse_filters(given, None)


def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="max_document_tokens: got 0"):
        parse_filters((), 0)


def test_documents_over_the_bound_are_dropped_whole(tmp_path: Path) -> None:
    texts = ["abc", "abcd", "é", "ab" * 50]
    path = write_rows(tmp_path / "a.jsonl", texts)
    report = small_build(path, tmp_path / "c", max_document_tokens=4)
    assert documents(tmp_path / "c") == [(ids, at, 0) for ids, at in zip(framed(["abc", "é"]), (0, 2), strict=True)]
    assert report.balance["documents"]["filtered"] == {"max_document_tokens": 2}
    assert report.balance["ids"]["filtered"] == {"max_document_tokens": 5 + 101}
    assert report.balance["ids"]["text"] + report.balance["ids"]["framing"] == len(river(tmp_path / "c")) == 7


def test_the_first_rule_that_drops_a_document_counts_it(tmp_path: Path) -> None:
    """Texts are looked at before ids, the option last."""
    path = write_rows(tmp_path / "a.jsonl", ["a", "ab" * 9, "abc", "é" * 6, "x", "xy"])
    report = small_build(path, tmp_path / "c", filter="length:max_ids=10,max_chars=9,min_ids=3", max_document_tokens=3)
    filtered = report.balance["documents"]["filtered"]
    assert filtered == {"max_chars": 1, "max_document_tokens": 1, "max_ids": 1, "min_ids": 2}


def test_the_manifest_records_what_was_asked_for(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", some_texts(9))
    small_build(path, tmp_path / "c", filter=["length:min_ids=2,max_chars=90"], max_document_tokens=80)
    options = manifest_of(tmp_path / "c")["options"]
    assert options["filters"] == [{"name": "length", "parameters": {"max_chars": 90, "min_ids": 2}}]
    assert options["max_document_tokens"] == 80
    small_build(path, tmp_path / "none")
    assert manifest_of(tmp_path / "none")["options"]["filters"] is None


def test_other_filters_are_other_options(tmp_path: Path) -> None:
    """On a finished corpus, for an append, and on a build that was not finished."""
    path = write_rows(tmp_path / "a.jsonl", some_texts(30))
    more = write_rows(tmp_path / "b.jsonl", some_texts(9, start=50))
    small_build(path, tmp_path / "c", filter="length:min_ids=9")
    before = files_of(tmp_path / "c")
    assert small_build(path, tmp_path / "c", filter=["length:min_ids=9"]).complete_before
    others: list[dict[str, object]] = [{}, {"filter": "length:min_ids=8"}]
    for other in others:
        with pytest.raises(MismatchError, match="filters: got"):
            small_build(path, tmp_path / "c", **other)
        with pytest.raises(MismatchError, match="append: filters: got"):
            small_build(more, tmp_path / "c", append=True, **other)
    assert files_of(tmp_path / "c") == before
    small_build(more, tmp_path / "c", filter="length:min_ids=9", append=True)
    assert tokenriver.verify(tmp_path / "c") == []
    _half_done(path, tmp_path / "half", max_document_tokens=70)
    with pytest.raises(MismatchError, match="max_document_tokens: got 71, expected 70"):
        small_build(path, tmp_path / "half", max_document_tokens=71)
    with pytest.raises(MismatchError, match="max_document_tokens: got None, expected 70"):
        small_build(path, tmp_path / "half")
    assert small_build(path, tmp_path / "half", max_document_tokens=70).resumed


def _half_done(path: Path, out: Path, **options: object) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_build(path, out, progress=stop, **options)


def test_an_input_of_which_nothing_stays_is_a_failure(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["a", "bc", "def"])
    with pytest.raises(InputError, match=r"none with a document \(1 max_document_tokens, 2 min_chars\)"):
        small_build(path, tmp_path / "c", filter="length:min_chars=3", max_document_tokens=3)
    assert not (tmp_path / "c" / "manifest.json").exists()
    assert small_build(path, tmp_path / "c").num_documents == 3


def test_bounds_come_before_max_tokens_and_the_validation_split(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["a" * n for n in (5, 50, 6, 60, 7, 70, 8)])
    small_build(path, tmp_path / "c", filter="length:max_ids=20", max_tokens=24, val_tokens=3)
    assert [len(ids) for ids, _, _ in documents(tmp_path / "c", "val")] == [6]
    assert [len(ids) for ids, _, _ in documents(tmp_path / "c")] == [7, 8]


@pytest.mark.parametrize(
    "options",
    [
        {"filters": "length"},
        {"filters": ["length"]},
        {"filters": [{"name": "length"}]},
        {"filters": [{"name": 3, "parameters": {}}]},
        {"max_document_tokens": "9"},
    ],
)
def test_a_manifest_that_says_it_in_another_form(options: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="options"):
        recorded_rules(options)


def test_names_in_a_manifest_are_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    options: dict[str, object] = {
        "filters": [{"name": name, "parameters": {}} for name in ("planted", "planted.keep", "os.path")]
    }
    assert recorded_rules(options) == ([], {"planted", "planted.keep", "os.path"})
