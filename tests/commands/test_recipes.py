"""The recipes of post-training: files as they are published are fetched, and the command that `get` names makes what a
trainer reads of them."""

import gzip
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenriver as tr
from command_line import tokenriver
from loopback import serving
from tokenriver.recipe import read_recipe, recipe_names

Rows = list[dict[str, Any]]


def lines(rows: Rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def array(rows: Rows) -> bytes:
    return json.dumps(rows, indent=4).encode()


def zipped(rows: Rows) -> bytes:
    return gzip.compress(lines(rows), mtime=0)


def table(rows: Rows) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=2)
    return sink.getvalue()


def turns(*contents: str) -> list[dict[str, str]]:
    return [{"content": text, "role": ("user", "assistant")[n % 2]} for n, text in enumerate(contents)]


ENDINGS = ["is wrapping skis.", "is ripping level tiles off.", "is holding a cube.", "starts pulling up roofing."]
HELLASWAG: Rows = [
    {
        "ind": 24,
        "activity_label": "Roof shingle removal",
        "ctx_a": "A man is sitting on a roof.",
        "ctx_b": "he",
        "ctx": "A man is sitting on a roof. he",
        "split": "val",
        "split_type": "indomain",
        "label": 3,
        "endings": ENDINGS,
        "source_id": "activitynet~v_-JhWjGDPHMY",
    },
]
MMLU: Rows = [
    {"question": f"What is {n} + {n}?", "subject": "arithmetic", "choices": [str(n + m) for m in range(4)], "answer": n}
    for n in range(4)
]
ALPACA: Rows = [
    {"instruction": "Name a colour.", "input": "", "output": "Red."},
    {"instruction": "Translate.", "input": "Haus", "output": "house"},
]
DOLLY: Rows = [
    {"instruction": "Who wrote it?", "context": "A book of Ann.", "response": "Ann.", "category": "closed_qa"},
    {"instruction": "Name a fish.", "context": "", "response": "The eel.", "category": "open_qa"},
]
GSM8K: Rows = [
    {"question": "Ann has 2 pens, Bo 3. How many?", "answer": "They have 2 + 3 = <<2+3=5>>5 pens.\n#### 5"},
    {"question": "And a thousand times as many?", "answer": "That is 5 * 1000 = <<5*1000=5000>>5000.\n#### 5,000"},
]
HH: Rows = [
    {"chosen": "\n\nHuman: Hi\n\nAssistant: Good day.", "rejected": "\n\nHuman: Hi\n\nAssistant: What?"},
    {
        "chosen": "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant: d",
        "rejected": "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant: e",
    },
]
ULTRAFEEDBACK: Rows = [
    {
        "prompt": asked,
        "prompt_id": "5" * 64,
        "chosen": turns(asked, "Paris."),
        "rejected": turns(asked, "Rome."),
        "messages": turns(asked, "Paris."),
        "score_chosen": 8.5,
        "score_rejected": 3.0,
    }
    for asked in ("The capital of France?", "And that of\nFrance again?")
]


def choices(path: Path, rows: Rows) -> None:
    examples = tr.open_choices(path)
    assert examples.labels.tolist() == [row.get("label", row.get("answer")) for row in rows]
    assert examples.counts.tolist() == [4] * len(rows)


def conversations(path: Path, rows: Rows) -> None:
    corpus = tr.open_corpus(path)
    assert (corpus.num_documents, corpus.has_loss_mask) == (len(rows), True)
    answers = [str(row.get("output", row.get("response"))) for row in rows]
    assert all(answer in corpus.decode(corpus.document(n)) for n, answer in enumerate(answers))


def prompts(path: Path, rows: Rows) -> None:
    made = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert made == [{"prompt": row["question"], "gold": gold} for row, gold in zip(rows, (5.0, 5000.0), strict=True)]


def pairs(path: Path, rows: Rows) -> None:
    corpus = tr.open_corpus(path)
    loader = tr.PairLoader(corpus, max_length=64, global_batch=len(rows))
    assert loader.num_pairs == len(rows)
    assert corpus.num_documents == 2 * len(rows)


CASES: dict[str, tuple[Callable[[Rows], bytes], Rows, Callable[[Path, Rows], None]]] = {
    "hellaswag": (lines, HELLASWAG, choices),
    "mmlu": (table, MMLU, choices),
    "alpaca": (array, ALPACA, conversations),
    "dolly": (lines, DOLLY, conversations),
    "gsm8k": (lines, GSM8K, prompts),
    "hh-rlhf": (zipped, HH, pairs),
    "ultrafeedback": (table, ULTRAFEEDBACK, pairs),
}


def test_every_recipe_with_a_command_is_run() -> None:
    assert {name for name in recipe_names() if read_recipe(name).command} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_from_what_is_published_to_what_a_trainer_reads(
    name: str, tmp_path: Path, quick_disk: None, capsys: pytest.CaptureFixture[str]
) -> None:
    pack, rows, check = CASES[name]
    data, out, recipe = pack(rows), tmp_path / "out", read_recipe(name)
    files = [file for file in recipe.files if file.split == recipe.splits[0]]
    listed = {file.path: file.path.replace("*", "00000-of-00001") for file in files}
    with serving() as web:
        folder = f"datasets/{recipe.hub}/resolve/main/" if recipe.hub else ""
        for path in listed.values():
            web.put(folder + path, data)
        # the Hub's list as an earlier run has kept it
        known = [
            {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path in listed.values()
        ]
        out.mkdir()
        kept = {pattern: [row] for pattern, row in zip(listed, known, strict=True) if "*" in pattern}
        (out / ".files.json").write_text(json.dumps(kept), encoding="utf-8")
        got = tokenriver(capsys, "get", name, "-o", out, "--base-url", web.url, "--json").json()
    assert got["fetched_files"] == len(files)
    program, *command = got["command"]
    assert (program, command[-2]) == ("tokenriver", "-o")
    ran = tokenriver(capsys, *command)
    assert (ran.code, ran.err) == (0, "")
    check(Path(command[-1]), rows * len(files))
    ran = tokenriver(capsys, "info", command[-1]) if name != "gsm8k" else ran
    assert ran.code == 0
