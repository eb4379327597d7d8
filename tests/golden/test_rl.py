"""Prompts for reinforcement learning as the HDF5 project writes them, to the byte."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenriver as tr
from golden_data import golden
from tokenriver.answers import extract_number, gold_answer_of_hdf5, reward
from tokenriver.arithmetic import problems_of_hdf5

ARITHMETIC = "9026ffcb9c8fe5dd2dc6d5bbf29091a1daddb4900dc639f53b03167fa0242b1c"


def _meta() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((golden("train_llm_from_scratch") / "rl_meta.json").read_bytes())
    return value


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("like", [None, "pile-hdf5"])
def test_prompts_of_gsm8k(split: str, like: str | None, tmp_path: Path) -> None:
    source, out = golden(f"train_llm_from_scratch/in_gsm8k_{split}.jsonl"), tmp_path / "prompts.jsonl"
    expected = golden(f"train_llm_from_scratch/rl_prompts_{split}.jsonl").read_bytes()
    limit = 12 if split == "test" else None  # the reference run was given fewer rows
    report = tr.rl_prompts(source, out, like=like, max_rows=limit)
    assert out.read_bytes() == expected
    meta = _meta()[f"rl_prompts_{split}.jsonl"]
    assert (report.kept, report.num_bytes, report.sha256) == (meta["rows"], meta["bytes"], meta["sha256"])
    assert report.rows == report.kept + sum(report.dropped.values())
    assert (report.bad, report.unused_fields) == ({}, {})


def test_arithmetic(tmp_path: Path) -> None:
    out = tmp_path / "arithmetic_prompts.jsonl"
    report = tr.rl_prompts([], out, like="pile-hdf5", arithmetic=5000)
    assert (report.kept, report.num_bytes, report.sha256) == (5000, 220132, ARITHMETIC)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == ARITHMETIC


def test_arithmetic_of_other_settings() -> None:
    meta = _meta()
    for case in [{"n": 12, "max_val": 20, "seed": 0, "rows": meta["arithmetic_prompts.jsonl"]["first"]}] + meta[
        "arithmetic_other_settings"
    ]:
        made = list(problems_of_hdf5(case["n"], seed=case["seed"], largest=case["max_val"]))
        assert [{"prompt": prompt, "gold": gold} for prompt, gold in made] == case["rows"]


def test_answers_and_rewards() -> None:
    meta = _meta()
    for case in meta["gsm8k_gold_answer"]:
        gold = gold_answer_of_hdf5(case["in"])
        assert (None if isinstance(gold, str) else gold) == case["out"]
    for case in meta["extract_answer_and_reward_gold_42"]:
        assert extract_number(case["in"]) == case["answer"]
        assert reward(case["in"], 42.0) == case["reward"]


def test_batches_in_its_own_order_hold_its_prompts(tmp_path: Path) -> None:
    tr.rl_prompts(golden("train_llm_from_scratch/in_gsm8k_train.jsonl"), tmp_path / "p.jsonl")
    loader = tr.PromptLoader(
        tmp_path / "p.jsonl", tr.load_chat("plain", tr.load_tokenizer("byte")), global_batch=1, order="sequential"
    )
    own, order = np.arange(60)[1::2], np.arange(30)
    np.random.default_rng(1).shuffle(order)
    expected = _meta()["prompt_iterator_train_n4_r1_w2_seed0_first3"]
    for number, batch in enumerate(expected):
        rows = own[order[4 * number : 4 * number + 4]].tolist()
        assert [loader.batch(row).prompts[0][:40] for row in rows] == batch
