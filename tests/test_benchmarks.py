"""The bare scripts that the build is measured against do the whole job: they write the ids that we write."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest
import zstandard

import tokenriver

ROOT = Path(__file__).resolve().parent.parent
RANKS = ROOT / "src" / "tokenriver" / "tokenizers" / "data" / "r50k_base.tiktoken.zst"
TEXTS = [
    "The river runs.",
    "def f(x):\n    return x  # \t done",
    "<p>naïve 漢字 🙂</p>",
    " ",
    "<|endoftext|>",
    "a" * 5000,
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A rank table and two archives; the second one ends without a newline and is longer than a block."""
    folder = tmp_path_factory.mktemp("bare")
    table = folder / "ranks.tiktoken"
    table.write_bytes(zstandard.ZstdDecompressor().decompress(RANKS.read_bytes()))
    lines = [orjson.dumps({"text": text}) for text in TEXTS]
    (folder / "a.jsonl.zst").write_bytes(zstandard.compress(b"".join(line + b"\n" for line in lines)))
    longer = [*lines, orjson.dumps({"text": "two megabytes " * 180_000}), *lines]
    (folder / "b.jsonl.zst").write_bytes(zstandard.compress(b"\n".join(longer)))
    return [table, folder / "a.jsonl.zst", folder / "b.jsonl.zst"]


@pytest.fixture(scope="module")
def expected(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("ours") / "corpus"
    tokenriver.build(inputs[1:], out, tokenizer="gpt2")
    corpus = tokenriver.open_corpus(out)
    return corpus.read(0, corpus.num_tokens).astype(np.uint16).tobytes()


@pytest.mark.parametrize("mode", ["one", "pipes", "farm", "threads"])
def test_bare_script_writes_our_ids(mode: str, inputs: list[Path], expected: bytes, tmp_path: Path) -> None:
    table, *archives = inputs
    out = tmp_path / "ids.bin"
    script = ROOT / "benchmarks" / "bare_scripts.py"
    subprocess.run([sys.executable, script, mode, table, out, *archives], check=True)
    assert out.read_bytes() == expected
