"""Recipes end to end against a server on loopback: fetched, checked, built, whatever happens on the way."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import tokenriver
from golden_data import golden
from loopback import Web, serving
from small_builds import QuickDisk, corpus_files, some_texts, write_rows
from tokenriver import files
from tokenriver.errors import FormatError, InputError, MismatchError
from tokenriver.getting import GetReport, get
from tokenriver.recipe import read_recipe
from tokenriver.wire import Access

DOCS = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(files, "system", QuickDisk())
    with serving() as made:
        yield made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def take(
    recipe: str | Path, out: Path, cache: Path, more: dict[str, Any] | None = None, base_url: str | None = None
) -> GetReport:
    """Without waiting."""
    given = {"base_url": base_url, **(more or {})}
    return get(recipe, out, cache_dir=cache, sleep=lambda seconds: None, **given)


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(f'title = "T"\nlicence = "L"\n{text}', encoding="utf-8")
    return path


def without_digest(folder: Path, name: str) -> Path:
    """A recipe of ours for another text: the same but for what is known of the file."""
    text = read_recipe_path(name).read_text(encoding="utf-8")
    start, end = text.index("    { path"), text.index("},") + 2
    path = folder / f"{name}.toml"
    path.write_text(text[:start] + '    { path = "input.txt" },' + text[end:], encoding="utf-8")
    return path


def read_recipe_path(name: str) -> Path:
    return Path(tokenriver.__file__).parent / "recipes" / f"{name}.toml"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        (
            "tinyshakespeare",
            {f"tiny_shakespeare_{s}_000000.bin": ("llmc", f"tiny_shakespeare_{s}.bin") for s in ("train", "val")},
        ),
        ("shakespeare", {f"{s}.bin": ("nanogpt", f"shakespeare/{s}.bin") for s in ("train", "val")}),
        ("shakespeare_char", {f"{s}.bin": ("nanogpt", f"shakespeare_char/{s}.bin") for s in ("train", "val")}),
    ],
)
def test_tiny_shakespeare_is_the_originals_to_the_byte(
    web: Web, tmp_path: Path, cache: Path, name: str, made: dict[str, tuple[str, str]]
) -> None:
    web.put("data/input.txt", golden("inputs/tinyshakespeare.txt").read_bytes(), {"cut": 500_000})
    report = take(name, tmp_path / "out", cache, base_url=f"{web.url}/data")
    expected = json.loads(golden("tinyshakespeare_outputs.json").read_text(encoding="utf-8"))
    for file, (system, key) in made.items():
        data = (tmp_path / "out" / file).read_bytes()
        wanted = expected[system][key]
        assert [len(data), hashlib.sha256(data).hexdigest()] == [wanted["bytes"], wanted["sha256"]]
    if name == "shakespeare_char":
        assert (tmp_path / "out" / "meta.pkl").read_bytes() == golden("nanogpt/meta.pkl").read_bytes()
    assert report.build is not None
    assert report.build.num_tokens == read_recipe(name).tokens


TEXT = "First:\nHear me, naïve 漢字.\n\nAll:\nSpeak, speak.\n\n\n\nFirst:\nYou are all resolved? " * 40


def test_the_form_of_llmc_on_any_text(web: Web, tmp_path: Path, cache: Path) -> None:
    recipe = without_digest(tmp_path, "tinyshakespeare")
    text = recipe.read_text(encoding="utf-8").replace("32_768", "501") + 'tokenizer = "byte"\n'
    recipe.write_text(text, encoding="utf-8")
    web.put("input.txt", TEXT.encode())
    take(recipe, tmp_path / "out", cache, base_url=web.url)
    pieces = TEXT.split("\n\n")
    texts = [piece + "\n\n" for piece in pieces[:-1]] + pieces[-1:]
    river = [i for text in texts for i in [256, *text.encode()]]
    val, train = (
        np.fromfile(tmp_path / "out" / f"tiny_shakespeare_{split}_000000.bin", np.uint16, offset=1024).tolist()
        for split in ("val", "train")
    )
    assert val == river[:501]
    assert train == river[501:]


@pytest.mark.parametrize("name", ["shakespeare", "shakespeare_char"])
def test_the_forms_of_nanogpt_on_any_text(web: Web, tmp_path: Path, cache: Path, name: str) -> None:
    web.put("input.txt", TEXT.encode())
    recipe = without_digest(tmp_path, name)
    if name == "shakespeare":
        with recipe.open("a") as file:
            file.write('tokenizer = "byte"\n')
    take(recipe, tmp_path / "out", cache, base_url=web.url)
    at = int(len(TEXT) * 0.9)
    letters = {letter: i for i, letter in enumerate(sorted(set(TEXT)))}
    for split, half in (("train", TEXT[:at]), ("val", TEXT[at:])):
        found = np.fromfile(tmp_path / "out" / f"{split}.bin", np.uint16).tolist()
        assert found == ([letters[c] for c in half] if name == "shakespeare_char" else list(half.encode()))


def parquet(texts: list[str], folder: Path) -> bytes:
    pq.write_table(pa.table({"text": texts, "url": texts}), folder / "x.parquet")
    return (folder / "x.parquet").read_bytes()


def zipped(texts: list[str], folder: Path) -> bytes:
    return zstandard.compress(write_rows(folder / "x.jsonl", texts).read_bytes())


@pytest.mark.parametrize(
    ("ending", "pack", "source"), [("parquet", parquet, "parquet"), ("jsonl.zst", zipped, "jsonl")]
)
def test_files_of_a_hub_become_the_corpus_of_the_same_files_here(
    web: Web, tmp_path: Path, cache: Path, ending: str, pack: Callable[[list[str], Path], bytes], source: str
) -> None:
    mine = tmp_path / "here"
    mine.mkdir()
    for n in range(3):
        data = pack(some_texts(20, start=20 * n), tmp_path)
        (mine / f"{n:02}.{ending}").write_bytes(data)
        web.put(f"datasets/o/n/resolve/main/train/{n:02}.{ending}", data, {"cut": len(data) // 2})
    web.put(f"datasets/o/n/resolve/main/val.{ending}", pack(["a", "b"], tmp_path))
    rows = f'files = [{{ path = "train/{{00..02}}.{ending}" }}, {{ path = "val.{ending}", split = "val" }}]'
    recipe = write(
        tmp_path, f'hub = "o/n"\n{rows}\n[build]\ntokenizer = "byte"\nsource = "{source}"\nval_fraction = 0.1'
    )
    report = take(recipe, tmp_path / "out", cache, base_url=web.url)
    tokenriver.build(mine, tmp_path / "expected", tokenizer="byte", source=source, val_fraction=0.1)
    assert corpus_files(tmp_path / "out") == corpus_files(tmp_path / "expected")
    assert report.download.tries_again == 3
    # the first two, and the other split
    two = take(recipe, tmp_path / "two", cache, {"shards": 2}, web.url)
    assert two.build is not None
    assert (two.download.fetched_files, two.build.num_documents) == (0, 40)
    val = take(recipe, tmp_path / "val", cache, {"split": "val"}, web.url)
    assert val.build is not None
    assert (val.download.fetched_files, val.build.num_documents) == (1, 2)


def test_stopped_on_the_way_the_same_call_gives_the_same_bytes(web: Web, tmp_path: Path, cache: Path) -> None:
    texts = [some_texts(20, start=20 * n) for n in range(4)]
    for n, rows in enumerate(texts):
        web.put(f"{n}.jsonl.zst", zipped(rows, tmp_path), {"cut": 100})
    recipe = write(
        tmp_path, 'base = "http://nowhere/"\nfiles = [{ path = "{0..3}.jsonl.zst" }]\n[build]\ntokenizer = "byte"'
    )

    class Stop(Exception):
        pass

    def stop(seconds: float) -> None:
        raise Stop

    with pytest.raises(Stop):
        get(recipe, tmp_path / "out", cache_dir=cache, sleep=stop, base_url=web.url)
    assert not (tmp_path / "out").exists()
    take(recipe, tmp_path / "out", cache, base_url=web.url)
    take(recipe, tmp_path / "once", tmp_path / "elsewhere", base_url=web.url)
    assert corpus_files(tmp_path / "out") == corpus_files(tmp_path / "once")
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()
    assert take(recipe, tmp_path / "out", cache, base_url=web.url).as_dict()["build"]["complete_before"]


def test_files_for_another_command_lie_in_the_folder_itself(web: Web, tmp_path: Path, cache: Path) -> None:
    for name in ("train", "test"):
        web.put(f"grade/{name}.jsonl", b'{"question": "1+1", "answer": "#### 2"}\n')
    report = take("gsm8k", tmp_path / "g", cache, base_url=f"{web.url}/grade/")
    assert report.build is None
    path = tmp_path / "g" / "train.jsonl"
    assert report.command == ("tokenriver", "rl", str(path), "-o", str(tmp_path / "g" / "prompts.jsonl"))
    assert sorted(p.name for p in (tmp_path / "g").iterdir()) == ["train.jsonl"]
    assert not cache.exists()
    assert take("gsm8k", tmp_path / "g", cache, {"split": "test"}, web.url + "/grade").files[0].name == "test.jsonl"


def test_a_tokenizer_comes_along_and_mirrors_have_names(web: Web, tmp_path: Path, cache: Path) -> None:
    names = ("tokenizer.json", "tokenizer_config.json")
    urls = [web.put(f"elsewhere/{name}", golden(f"inputs/minimind_{name}").read_bytes()) for name in names]
    web.put("mirror/rows.jsonl", write_rows(tmp_path / "rows.jsonl", ["abc", "de"]).read_bytes())
    tools = [f'{{ path = "{name}", use = "tokenizer", url = "{url}" }}' for name, url in zip(names, urls, strict=True)]
    rows = f'files = [{{ path = "rows.jsonl" }}, {", ".join(tools)}]'
    recipe = write(
        tmp_path, f'hub = "o/n"\nmirrors = {{ other = "{web.url}/mirror" }}\n{rows}\n[build]\nlike = "minimind"'
    )
    report = take(recipe, tmp_path / "out", cache, base_url="other")
    assert [path.name for path in report.files] == ["rows.jsonl"]
    corpus = tokenriver.open_corpus(tmp_path / "out")
    assert corpus.num_documents == 2
    assert corpus.read(0, 1).tolist() == [1]
    with pytest.raises(InputError, match="base_url: got 'third', expected one of other or an address"):
        take(recipe, tmp_path / "new", cache, base_url="third")


def test_the_token_is_for_the_hub_alone(web: Web, tmp_path: Path, cache: Path) -> None:
    web.put("datasets/o/n/resolve/main/a.jsonl", b'{"text": "a"}\n')
    recipe = write(tmp_path, 'hub = "o/n"\nfiles = [{ path = "a.jsonl" }]\n[build]\ntokenizer = "byte"')
    access = Access(token="hf_secret", endpoint=web.url)
    take(recipe, tmp_path / "hub", cache, {"access": access})
    take(recipe, tmp_path / "mirror", tmp_path / "other", {"access": Access(token="hf_secret")}, web.url)
    assert web.tokens == ["Bearer hf_secret", None]


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"split": "dev"}, "split: got 'dev', expected one of val, train"),
        ({"shards": 0}, "shards: got 0, expected at least 1"),
        ({"base_url": "mirror"}, "base_url: got 'mirror', expected an address"),
        ({"base_url": "ftp://host/"}, "got no address of"),
    ],
)
def test_refusals(tmp_path: Path, cache: Path, more: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        take("hellaswag", tmp_path / "out", cache, more)
    assert not (tmp_path / "out").exists()


def test_patterns_need_a_hub(tmp_path: Path, cache: Path) -> None:
    recipe = write(tmp_path, 'hub = "o/n"\nmirrors = { m = "http://h/" }\nfiles = [{ path = "*.jsonl" }]\n[build]')
    with pytest.raises(InputError, match="whose files only a hub can list"):
        take(recipe, tmp_path / "out", cache, base_url="m")


@pytest.mark.parametrize(
    ("listed", "what"),
    [
        (b"{", "got no JSON"),
        (b"[]", "something else than lists"),
        (b'{"*.jsonl": [{"path": "../a.jsonl", "size": 1, "sha256": null}]}', "file.path: got '../a.jsonl'"),
        (b'{"*.jsonl": [{"path": "/a.jsonl", "size": 1, "sha256": null}]}', "file.path: got '/a.jsonl'"),
        (b'{"*.jsonl": [{"path": ".a.jsonl", "size": 1, "sha256": null}]}', "expected no hidden file"),
        (b'{"*.jsonl": [{"path": "a.txt", "size": 1, "sha256": null}]}', r"got 'a.txt' for '\*.jsonl'"),
        (b'{"*.jsonl": [{"path": "a.jsonl", "size": -1, "sha256": null}]}', "file.size: got -1"),
        (b'{"*.jsonl": [3]}', "file: got int"),
    ],
)
def test_a_list_that_somebody_changed_leads_nowhere(tmp_path: Path, cache: Path, listed: bytes, what: str) -> None:
    recipe = write(tmp_path, 'hub = "o/n"\nfiles = [{ path = "*.jsonl" }]\n[build]')
    folder = cache / "mine-d3cbda5c8ba1"
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenriver.getting._place", lambda *_: folder.name)
        (folder / ".files.json").write_bytes(listed)
        with pytest.raises(FormatError, match=what):
            take(recipe, tmp_path / "out", cache)


def test_a_wrong_digest_leaves_no_corpus(web: Web, tmp_path: Path, cache: Path) -> None:
    web.put("input.txt", b"x" * 1_115_394)
    with pytest.raises(MismatchError, match=r"input.txt: sha256: got .*, expected 86c4e6aa"):
        take("tinyshakespeare", tmp_path / "out", cache, base_url=web.url)
    assert not (tmp_path / "out").exists()
    assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("text", "what"), [(b"", "got 0 characters"), (b"a", "got 1 char"), (b"a\xff", "byte 1: got no UTF-8")]
)
def test_a_text_that_cannot_be_cut(web: Web, tmp_path: Path, cache: Path, text: bytes, what: str) -> None:
    web.put("input.txt", text)
    with pytest.raises(InputError, match=what):
        take(without_digest(tmp_path, "shakespeare"), tmp_path / "out", cache, base_url=web.url)


def test_the_example_in_the_document_is_a_recipe(tmp_path: Path) -> None:
    example = DOCS.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "my-set.toml").write_text(example, encoding="utf-8")
    assert len(read_recipe(tmp_path / "my-set.toml").files) == 31
