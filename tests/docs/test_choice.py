"""docs/choice.md and docs/formats/choice.md against the code: tables, reasons, and the example."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import tokenriver as tr
from choice_cases import as_lists, made, write_lines
from doc_tables import cells, value
from tokenriver.choicescores import RULES
from tokenriver.choiceturns import NOT_RENDERABLE
from tokenriver.examples import _choice_llmc, _choice_native, _choice_records
from tokenriver.examples.choice import NO_IDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "choice.md").read_text(encoding="utf-8")
FORMAT = (DOCS / "formats" / "choice.md").read_text(encoding="utf-8")
EXAMPLES = [([1, 2], [[3], [70000, 5], [6]], 1), ([8], [[9], [10]], 0)]


def test_our_own_file_is_read_by_its_table(tmp_path: Path) -> None:
    examples = made(EXAMPLES, records=np.array([4, 7]))
    tr.write_choices(examples, tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    rows = cells(FORMAT, "## Our own file")
    head = {name: int.from_bytes(data[8 * at : 8 * at + 8], "little") for at, name in enumerate("NCMJ", 1)}
    assert head == {"N": 2, "C": 5, "M": len(examples.ids), "J": head["J"]}
    columns: list[Any] = []
    end = 0
    for offset, size, kind, _ in rows:
        start = value(offset, **head)
        assert start == end
        end = start + value(size, **head)
        columns.append(data[start:end] if kind == "bytes" else np.frombuffer(data[start:end], kind).tolist())
    assert end == len(data)
    assert columns[0] == _choice_native.MAGIC
    assert sorted(orjson.loads(columns[5])) == [row[0].strip("`") for row in cells(FORMAT, "The JSON is one object")]
    expected = [getattr(examples, name) for name in ("labels", "choice_ends", "piece_ends", "choice_bytes", "records")]
    expected += [examples.sources, examples.ids]
    assert columns[6:-1] == [column.tolist() for column in expected]


def test_llmcs_file_is_read_by_its_tables() -> None:
    example = ([1, 2], [[3], [4, 5], [6], [7]], 2)
    header, words = _choice_llmc.pack(made([example]))
    rows = cells(FORMAT, "## llm.c's evaluation file")
    assert [int(row[0]) for row in rows] == [0, 4, 8, 12, 16]
    numbers = np.frombuffer(header, "<i4")
    assert rows[0][3] == f"magic {numbers[0]}"
    assert rows[1][3] == f"version {numbers[1]}"
    assert rows[2][3].endswith(f"1 to {_choice_llmc.MAX_EXAMPLES}")
    assert (numbers[2], numbers[3]) == (1, 2 * len(words))
    assert 16 + int(rows[4][1]) == len(header) == _choice_llmc.HEADER_BYTES
    assert not numbers[4:].any()
    places = cells(FORMAT, "Then a record of uint16")
    assert words[:5].tolist() == [int(places[0][1]), 2 * len(words), 0, 2, int(places[4][1])]
    assert words[5:].tolist() == [2, 1, 2, 1, 3, 2, 4, 5, 1, 6, 1, 7]
    for number in (_choice_llmc.MAX_ID, _choice_llmc.MAX_EXAMPLES, _choice_llmc.MAX_RECORD_BYTES):
        assert str(number) in FORMAT.partition("Refused when it is written")[2]


def test_tables_are_those_of_the_code() -> None:
    shapes = cells(TEXT, "are told by their fields")
    assert [row[0].strip("`") for row in shapes] == [shape.name for shape in _choice_records.SHAPES]
    for row, shape in zip(shapes, _choice_records.SHAPES, strict=True):
        assert re.findall(r"`(\w+)`", row[1]) == list(shape.told_by)
        assert set(re.findall(r"`(\w+)`", row[4])) == set(shape.label)
    assert [row[0].strip("`") for row in cells(TEXT, "or `--style`")] == list(_choice_records.STYLES)
    assert [row[0].strip("`") for row in cells(TEXT, "## Scores")] == list(RULES)
    names = {name for name in vars(_choice_records) if name.isupper() and name[0] != "_"}
    names -= {"SHAPES", "STYLES", "LETTERS", "ANSWERS"}
    known = {getattr(_choice_records, name) for name in names} | {NO_IDS, NOT_RENDERABLE}
    everywhere = {"field-missing", "null", "not-a-string"}
    notes = {_choice_records.MOVED_SPACE, _choice_records.EQUAL_CHOICES}
    assert {row[0].strip("`") for row in cells(TEXT, "Beside the reasons")} == known - everywhere - notes
    assert all(f"`{note}`" in TEXT for note in notes)
    general = (DOCS / "errors-and-input.md").read_text(encoding="utf-8")
    assert all(f"| `{reason}` |" in general for reason in everywhere)


def test_the_example_runs(tmp_path: Path) -> None:
    """The model likes what it has seen last: a loss is how far a target is from its input."""
    rows = [{"context": f"{n} x {n} =", "choices": [f"{n * n + d}" for d in (7, 0, 1)], "label": 1} for n in range(9)]
    write_lines(tmp_path / "squares.jsonl", rows)

    def losses_of(inputs: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        losses: np.ndarray[Any, Any] = np.abs(inputs - targets) + 0.5
        return losses

    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {"tr": tr, "losses_of": losses_of}
    exec(example.replace('"squares.', f'"{tmp_path}/squares.'), names)
    right = 0
    for context, choices, label in as_lists(tr.open_choices(tmp_path / "squares.choice")):
        sums = [sum(abs(a - b) + 0.5 for a, b in zip([context[-1], *c[:-1]], c, strict=True)) for c in choices]
        right += sums.index(min(sums)) == label
    assert names["result"]["acc"] == right / 9
    assert (names["result"]["examples"], names["result"]["unscorable"]) == (9, 0)
