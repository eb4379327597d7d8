"""Every document of any inputs, in order, with its record's number."""

from pathlib import Path

import pytest

from small_builds import some_texts, write_rows
from source_cases import gz, zst
from tokenriver import reading
from tokenriver.inputs import find_inputs
from tokenriver.types import SourceOptions


@pytest.mark.parametrize("range_bytes", [100, 1 << 20])
def test_documents_and_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, range_bytes: int) -> None:
    monkeypatch.setattr(reading, "RANGE_BYTES", range_bytes)
    texts = some_texts(40)
    texts[7] = ""
    rows = write_rows(tmp_path / "a.jsonl", texts)
    (tmp_path / "b.jsonl.gz").write_bytes(gz(rows.read_bytes()))
    (tmp_path / "c.jsonl.zst").write_bytes(zst(rows.read_bytes()))
    (tmp_path / "d.txt").write_text("one file, one text", encoding="utf-8")
    seen: list[tuple[int, int]] = []
    found = [
        (part.file.name, part.first + record, text.decode())
        for part in reading.read_documents(find_inputs([tmp_path]), SourceOptions(), lambda *at: seen.append(at))
        for record, text in zip(part.batch.records.tolist(), part.batch.texts, strict=True)
    ]
    wanted = [(name, i, text) for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst") for i, text in enumerate(texts)]
    assert found == [*(row for row in wanted if row[2]), ("d.txt", 0, "one file, one text")]
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
