"""Lists of files on the Hugging Face Hub, by the Hub's own library, from a server that answers as the Hub does."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback import Web, serving
from small_builds import QuickDisk, some_texts, write_rows
from tokenriver import files, registry
from tokenriver.errors import InputError
from tokenriver.getting import get
from tokenriver.wire import Access

pytestmark = pytest.mark.interop
FOLDER = "api/datasets/o/n"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(files, "system", QuickDisk())
    with serving() as web:
        yield web


def put_tree(hub: Web, bodies: dict[str, bytes]) -> None:
    """What the Hub answers about a repository with these files, all in sample/10BT."""
    head: dict[str, Any] = {"id": "o/n", "sha": "a" * 40, "siblings": [], "private": False, "tags": [], "downloads": 0}
    hub.put(FOLDER, json.dumps(head).encode(), Content_Type="application/json")
    hub.put(f"{FOLDER}/revision/main", json.dumps(head).encode(), Content_Type="application/json")
    rows = []
    for name, data in reversed(bodies.items()):
        sha256 = hashlib.sha256(data).hexdigest()
        large = {"oid": sha256, "size": len(data), "pointerSize": 134}
        rows.append({"type": "file", "oid": "b" * 40, "size": len(data), "path": name, "lfs": large})
        hub.put(f"datasets/o/n/resolve/main/{name}", data)
    for query in ("recursive=true&expand=false", "recursive=True&expand=False", "recursive=false&expand=false"):
        for folder in ("", "/sample/10BT", "/sample%2F10BT"):
            hub.put(f"{FOLDER}/tree/main{folder}?{query}", json.dumps(rows).encode(), Content_Type="application/json")


def test_a_pattern_becomes_the_sorted_files_with_their_digests(hub: Web, tmp_path: Path) -> None:
    texts = {n: some_texts(5, start=5 * n) for n in range(3)}
    bodies = {f"sample/10BT/{n:03}.jsonl": write_rows(tmp_path / "x", rows).read_bytes() for n, rows in texts.items()}
    put_tree(hub, {**bodies, "sample/10BT/readme.txt": b"no data"})
    recipe = tmp_path / "mine.toml"
    rows = 'files = [{ path = "sample/10BT/*.jsonl" }]'
    recipe.write_text(f'title = "T"\nlicence = "L"\nhub = "o/n"\n{rows}\n[build]\ntokenizer = "byte"\n')
    access = Access(endpoint=hub.url)
    asked: dict[str, Any] = {"cache_dir": tmp_path / "cache", "sleep": lambda seconds: None, "access": access}
    report = get(recipe, tmp_path / "out", **asked)
    assert [path.name for path in report.files] == ["000.jsonl", "001.jsonl", "002.jsonl"]
    assert report.build is not None
    assert report.build.num_documents == 15
    lists = json.loads(next((tmp_path / "cache").rglob(".files.json")).read_text())
    assert [row["sha256"] for row in lists["sample/10BT/*.jsonl"]] == [
        hashlib.sha256(data).hexdigest() for data in bodies.values()
    ]
    # the list is kept: a rerun asks for nothing
    before = len(hub.asked)
    get(recipe, tmp_path / "out", **asked)
    assert len(hub.asked) == before


def test_what_is_not_there_is_named(hub: Web) -> None:
    put_tree(hub, {"sample/10BT/a.jsonl": b"x"})
    list_files = registry.load("remotes", "hub").list_files
    with pytest.raises(InputError, match=r"found 1 files, none of which matches 'sample/10BT/\*.parquet'"):
        list_files("o/n", "main", "sample/10BT/*.parquet", Access(endpoint=hub.url))
    refused = {"status": 401, "headers": {"X-Error-Code": "RepoNotFound"}}
    hub.put("api/datasets/o/model/revision/main", b"", *[refused] * 9)
    for name in ("o/model", "o/gone"):
        with pytest.raises(InputError, match=r"found no such dataset, revision or folder .* a dataset and no model"):
            list_files(name, "main", "*.parquet", Access(endpoint=hub.url))
