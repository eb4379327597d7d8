"""`tokenriver get` and `tokenriver build URL`: what they print, where downloads lie, how they refuse."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tokenriver as tr
from command_line import tokenriver
from loopback import Served, Web, serving
from small_builds import corpus_files
from tokenriver.commands import _environment
from tokenriver.wire import Access

ROWS = b'{"text": "abc"}\n{"text": "de"}\n'


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    with serving() as made, monkeypatch.context() as patch:
        patch.setenv("TOKENRIVER_CACHE", str(tmp_path / "cache"))
        yield made


def recipe(folder: Path, url: str) -> Path:
    path = folder / "mine.toml"
    rows = 'files = [{ path = "a.jsonl" }]\n[build]\ntokenizer = "byte"\n'
    path.write_text(f'title = "My set"\nlicence = "CC0"\nbase = "{url}"\n{rows}', encoding="utf-8")
    return path


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "get", "--list")
    assert (ran.code, ran.err) == (0, "")
    line = next(" ".join(line.split()) for line in ran.out.splitlines() if line.split()[:1] == ["tinyshakespeare"])
    assert line == "tinyshakespeare 1.12 MB 338,028 public domain llmc, gpt2 Tiny Shakespeare, as llm.c has it"
    rows = tokenriver(capsys, "get", "--list", "--json").json()["recipes"]
    owt = next(row for row in rows if row["name"] == "openwebtext")
    assert (owt["becomes"], owt["splits"]) == ("nanogpt, gpt2", ["train"])
    assert "other documents" in owt["about"]


def test_a_recipe_is_fetched_and_built(web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    web.put("a.jsonl", ROWS, {"status": 503, "headers": {"Retry-After": "0"}})
    path = recipe(tmp_path, web.url)
    ran = tokenriver(capsys, "get", path, "-o", tmp_path / "out")
    assert ran.code == 0
    assert "My set" in ran.out
    assert "1 of 1 files fetched now, 31 B; licence: CC0" in ran.out
    assert ran.err == f"note: {web.url}/a.jsonl: the server said 503 (Service Unavailable); trying again in 0 s\n"
    assert [file.name for file in (tmp_path / "cache").rglob("*.jsonl")] == ["a.jsonl"]
    again = tokenriver(capsys, "get", path, "-o", tmp_path / "out", "--json").json()
    assert (again["fetched_files"], again["build"]["complete_before"], again["command"]) == (0, True, [])
    # another cache, another mirror
    words = ["--cache-dir", tmp_path / "other", "--base-url", web.url + "/", "--shards", 1]
    assert tokenriver(capsys, "get", path, "-o", tmp_path / "b", *words, "--json").json()["fetched_files"] == 1
    assert corpus_files(tmp_path / "out") == corpus_files(tmp_path / "b")


def test_the_command_that_comes_next_is_named(web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    web.put("train.jsonl", ROWS)
    ran = tokenriver(capsys, "get", "gsm8k", "-o", tmp_path / "my set", "--base-url", web.url)
    assert ran.code == 0
    assert f"now run:  tokenriver rl '{tmp_path}/my set/train.jsonl' -o '{tmp_path}/my set/prompts.jsonl'" in ran.out


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        ([], 2, "got no RECIPE"),
        (["no_such"], 1, "recipe: got 'no_such', expected one of alpaca"),
        (["missing.toml"], 1, "missing.toml: cannot read"),
        (["hellaswag", "--split", "dev"], 1, "split: got 'dev'"),
        (["hellaswag", "--base-url", "BASE"], 1, "got 404 (Not Found), expected a file"),
    ],
)
def test_refusals(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, what: str
) -> None:
    out = ["-o", tmp_path / "out"] if words else []
    ran = tokenriver(capsys, "get", *[word.replace("BASE", web.url) for word in words], *out)
    assert ran.code == code
    assert what in ran.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_inputs_of_a_build_may_be_addresses(web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = web.put("a.jsonl", ROWS)
    (tmp_path / "b.jsonl").write_bytes(ROWS)
    words = ["build", url, tmp_path / "b.jsonl", "-o", tmp_path / "out", "--tokenizer", "byte", "--json"]
    assert tokenriver(capsys, *words).json()["num_documents"] == 4
    assert tokenriver(capsys, *words).json()["complete_before"]
    assert len(web.asked) == 1
    ran = tokenriver(capsys, "build", f"{web.url}/missing.jsonl", "-o", tmp_path / "c")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "missing.jsonl: got 404" in ran.err
    ran = tokenriver(capsys, "build", f"{web.url}/", "-o", tmp_path / "c")
    assert "name: got ''" in ran.err
    ran = tokenriver(capsys, "build", "hf://owner/name/a.jsonl", "-o", tmp_path / "c")
    assert "this is a model: datasets have datasets/ before the owner" in ran.err
    with pytest.raises(tr.InputError, match="download it first, as the command"):
        tr.build(url, tmp_path / "c")


def test_an_input_on_the_hub(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    web.put("datasets/o/n/resolve/v1/data/a.jsonl", ROWS)
    with monkeypatch.context() as patch:
        patch.setenv("HF_ENDPOINT", web.url)
        patch.setenv("HF_TOKEN", "hf_secret")
        words = ["build", "hf://datasets/o/n@v1/data/a.jsonl", "-o", tmp_path / "out", "--tokenizer", "byte", "--json"]
        assert tokenriver(capsys, *words).json()["num_documents"] == 2
    assert web.tokens == ["Bearer hf_secret"]


def test_proxies_come_from_the_environment(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://nowhere.invalid/a.jsonl"
    web.files[url] = Served(ROWS)
    with monkeypatch.context() as patch:
        patch.setenv("http_proxy", web.url)
        ran = tokenriver(capsys, "build", url, "-o", tmp_path / "out", "--tokenizer", "byte", "--json")
    assert ran.json()["num_documents"] == 2
    assert [path for path, _ in web.asked] == [url]


@pytest.mark.parametrize("path", ["", "../a", "/a", "a//b", ".a", "a/{0..3}", "a?b=c#d"])
def test_what_is_no_path_on_the_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str) -> None:
    ran = tokenriver(capsys, "build", f"hf://datasets/o/n/{path}", "-o", tmp_path / "c")
    assert (ran.code, list(tmp_path.iterdir())) == (1, [])
    assert "expected hf://datasets/OWNER/NAME[@REVISION]/PATH" in ran.err


def test_a_corpus_does_not_know_where_the_cache_was(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = web.put("a.jsonl", ROWS)
    for name in ("x", "y"):
        with monkeypatch.context() as patch:
            patch.setenv("TOKENRIVER_CACHE", str(tmp_path / f"cache-{name}"))
            assert tokenriver(capsys, "build", url, "-o", tmp_path / name, "--tokenizer", "byte").code == 0
    assert corpus_files(tmp_path / "x") == corpus_files(tmp_path / "y")
    assert str(tmp_path) not in (tmp_path / "x" / "manifest.json").read_text()


def test_what_the_environment_says(tmp_path: Path) -> None:
    home = Path.home()
    assert _environment.cache_folder(None, {}) == home / ".cache" / "tokenriver"
    assert _environment.cache_folder(None, {"XDG_CACHE_HOME": "/x"}) == Path("/x/tokenriver")
    assert _environment.cache_folder(None, {"TOKENRIVER_CACHE": "/y", "XDG_CACHE_HOME": "/x"}) == Path("/y")
    assert _environment.cache_folder(Path("/z"), {"TOKENRIVER_CACHE": "/y"}) == Path("/z")
    assert _environment.access({"HF_HOME": str(tmp_path)}) == Access(trust_env=True)
    (tmp_path / "token").write_text("saved\n")
    found = _environment.access({"HF_HOME": str(tmp_path), "HF_ENDPOINT": "https://hub.example"})
    assert found == Access(trust_env=True, token="saved", endpoint="https://hub.example")
    assert _environment.access({"HF_HOME": str(tmp_path), "HF_TOKEN": "given"}).token == "given"
