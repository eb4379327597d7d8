"""Filters of the user's own: found by their dotted names, also by workers; every wrong answer is refused by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tokenriver
from small_builds import documents, files_of, manifest_of, small_build, some_texts, write_rows
from tokenriver.errors import InputError, MismatchError

pytestmark = pytest.mark.usefixtures("quick_disk")

MODULE = """
import numpy as np
__version__ = "2.1"

def keep(texts, least=3):
    return np.array([len(text) % 5 >= least for text in texts], bool)

def lists(texts):
    texts.clear()
    return [True] * 0

def even(texts):
    return [len(text) % 2 == 0 for text in texts]

even.__version__ = "of its own"

def numbers(texts):
    return np.ones(len(texts), np.int64)

def one(texts):
    return np.bool_(True)

def raises(texts):
    raise ZeroDivisionError("of my own")

def ragged(texts):
    return [[True], [True, False]]

def nothing(texts):
    pass

constant = 7
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package on the search path, another for each test, with a module `quality`."""
    name = f"lab_{tmp_path.name}"
    (tmp_path / "path" / name).mkdir(parents=True)
    (tmp_path / "path" / name / "__init__.py").write_text("")
    (tmp_path / "path" / name / "quality.py").write_text(MODULE)
    (tmp_path / "path" / name / "broken.py").write_text("def keep(:")
    (tmp_path / "path" / name / "bare.py").write_text("keep = lambda texts: [b'a' in t for t in texts]")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    return name


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", some_texts(60))


def lengths() -> list[int]:
    return [len(text.encode()) for text in some_texts(60)]


def test_a_module_with_a_function_keep(tmp_path: Path, lab: str, rows: Path) -> None:
    for words, least in ((f"{lab}.quality", 3), (f"{lab}.quality:least=2", 2), (f"{lab}.quality.keep:least=1", 1)):
        report = small_build(rows, tmp_path / f"c{least}", filter=words)
        wanted = [at for at, length in enumerate(lengths()) if length % 5 >= least]
        assert [record for _, record, _ in documents(tmp_path / f"c{least}")] == wanted
        assert report.balance["documents"]["filtered"] == {words.partition(":")[0]: 60 - len(wanted)}
        assert report.balance["ids"]["filtered"] == {words.partition(":")[0]: 0}
        assert tokenriver.verify(tmp_path / f"c{least}", against_inputs=True, inputs_root=tmp_path) == []


def test_the_manifest_has_name_parameters_and_version(tmp_path: Path, lab: str, rows: Path) -> None:
    small_build(rows, tmp_path / "c", filter=[f"{lab}.quality:least=1", f"{lab}.quality.even", f"{lab}.bare"])
    assert manifest_of(tmp_path / "c")["options"]["filters"] == [
        {"name": f"{lab}.quality", "parameters": {"least": 1}, "version": "2.1"},
        {"name": f"{lab}.quality.even", "parameters": {}, "version": "of its own"},
        {"name": f"{lab}.bare", "parameters": {}},
    ]


def test_another_version_is_another_filter(
    tmp_path: Path, lab: str, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_build(rows, tmp_path / "c", filter=f"{lab}.quality")
    assert small_build(rows, tmp_path / "c", filter=f"{lab}.quality").complete_before
    monkeypatch.setattr(f"{lab}.quality.__version__", "2.2")
    with pytest.raises(MismatchError, match=r"filters: got .*2\.2.*expected .*2\.1"):
        small_build(rows, tmp_path / "c", filter=f"{lab}.quality")


def test_workers_import_it_too(tmp_path: Path, lab: str, rows: Path) -> None:
    options = {"filter": [f"{lab}.quality", "length:max_ids=90"], "val_fraction": 0.2}
    small_build(rows, tmp_path / "here", **options)
    for workers in (1, 3):
        small_build(rows, tmp_path / f"{workers}", workers=workers, **options)
        assert files_of(tmp_path / f"{workers}") == files_of(tmp_path / "here")


WRONG = {
    "numbers": r"got an array of int64, shape \(\d+,\), expected bool",
    "one": r"got an array of bool, shape \(\), expected bool, shape \(\d+,\)",
    "lists": r"got an array of float64, shape \(0,\), expected bool",
    "raises": "got ZeroDivisionError: of my own, expected an answer for",
    "ragged": "got ValueError",
    "nothing": r"got an array of object, shape \(\)",
}


@pytest.mark.parametrize(("name", "workers"), [*((name, None) for name in WRONG), ("numbers", 2), ("raises", 2)])
def test_a_wrong_answer_is_an_error(tmp_path: Path, lab: str, rows: Path, name: str, workers: int | None) -> None:
    with pytest.raises(InputError, match=f"filter {lab}.quality.{name}: {WRONG[name]}") as found:
        small_build(rows, tmp_path / "c", filter=f"{lab}.quality.{name}", workers=workers)
    assert "mend the filter and run the same command again" in str(found.value)
    assert not (tmp_path / "c" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("{lab}.quality.no_such", "cannot import: ModuleNotFoundError"),
        ("{lab}.no_such", "cannot import"),
        ("no_such_lab.quality", "cannot import.*PYTHONPATH"),
        ("{lab}.broken", "cannot import: SyntaxError"),
        ("{lab}.quality.constant", "got int, expected a function"),
        ("{lab}..quality", "got no dotted name"),
        ("os.path", "got a module without keep"),
        ("{lab}.quality:most=3", "got most, expected those of its function"),
        ("{lab}.quality.one:least=3", "got least, expected"),
    ],
)
def test_names_that_are_refused_before_anything_is_done(
    tmp_path: Path, lab: str, rows: Path, name: str, what: str
) -> None:
    with pytest.raises(InputError, match=what):
        small_build(rows, tmp_path / "c", filter=name.format(lab=lab))
    assert not (tmp_path / "c").exists()


def test_the_filter_of_the_document_works(tmp_path: Path, lab: str) -> None:
    text = (Path(__file__).parent.parent / "docs" / "filters.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "path" / lab / "of_the_document.py").write_text(code)
    rows = write_rows(tmp_path / "rows.jsonl", ["a\nb", "c", "d\n\n\ne"])
    small_build(rows, tmp_path / "c", filter=f"{lab}.of_the_document:most_lines=2")
    assert [record for _, record, _ in documents(tmp_path / "c")] == [0, 1]
    assert manifest_of(tmp_path / "c")["options"]["filters"][0]["version"] == "1"


def test_on_the_command_line(tmp_path: Path, lab: str, rows: Path) -> None:
    """It lies on the search path of Python; workers start before the build knows of it."""
    words = ["build", str(rows), "-o", str(tmp_path / "c"), "--tokenizer", "byte", "--workers", "2", "--json"]
    path = os.pathsep.join([str(tmp_path / "path"), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-m", "tokenriver", *words, "--filter", f"{lab}.quality:least=4"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    filtered = json.loads(ran.stdout)["balance"]["documents"]["filtered"]
    assert filtered == {f"{lab}.quality": sum(length % 5 < 4 for length in lengths())}
