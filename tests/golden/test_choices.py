"""llm.c's evaluation file and its EvalLoader: bytes, valid cells and scores, against what the original gave."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenriver as tr
from choice_cases import HELLASWAG, as_lists, write_lines
from golden_data import FOLDER, golden

CASES: dict[str, Any] = {}
if (FOLDER / "llmc_eval" / "eval_cases.json").is_file():
    CASES = json.loads((FOLDER / "llmc_eval" / "eval_cases.json").read_bytes())


def loader_of(case: dict[str, Any]) -> tr.EvalLoader:
    return tr.EvalLoader(
        tr.open_choices(golden("llmc_eval/eval.bin")),
        batch_rows=case["B"],
        seq_len=case["T"],
        rank=case["rank"],
        world_size=case["world"],
        layout="llmc",
    )


def test_the_file(tmp_path: Path) -> None:
    source = json.loads(golden("llmc_eval/eval_source.json").read_bytes())
    assert source["examples"] == HELLASWAG
    records = write_lines(tmp_path / "in.jsonl", source["examples"])
    tr.build_choices(records, tmp_path / "eval.bin", format="llmc", style="hellaswag")
    assert (tmp_path / "eval.bin").read_bytes() == golden("llmc_eval/eval.bin").read_bytes()
    expected = [(row["ctx_tokens"], row["ending_tokens"], row["label"]) for row in source["tokens"]]
    assert as_lists(tr.open_choices(golden("llmc_eval/eval.bin"))) == expected


def test_every_case_is_looked_at() -> None:
    golden("llmc_eval")
    assert len(CASES) == 21
    assert sum("npz" in case for case in CASES.values()) == 17


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "npz" in case])
def test_cells_and_scores(name: str) -> None:
    case, arrays = CASES[name], np.load(golden(f"llmc_eval/{CASES[name]['npz']}"))
    loader = loader_of(case)
    assert len(loader) == case["num_batches"]
    number = 0
    for _ in range(case["reset_and_repeat"]):
        scores, before = tr.ChoiceScores(loader), 0
        for batch in loader:
            mask = arrays["mask"][number] == 1
            assert np.array_equal(batch.loss_mask, mask)
            assert np.array_equal(batch.targets[mask], arrays["targets"][number][mask])
            for line in np.flatnonzero(batch.example_ids >= 0).tolist():
                context, *choices = loader.examples.pieces(int(batch.example_ids[line]))
                used = len(context) + len(choices[batch.choice_ids[line]])
                assert np.array_equal(batch.input_ids[line, :used], arrays["inputs"][number][line, :used])
                assert not batch.input_ids[line, used:].any()
            scores.add(batch, arrays["losses"][number])
            shown = batch.labels[::4][batch.example_ids[::4] >= 0].tolist()
            assert shown == case["per_batch"][number]["labels"][: len(shown)]
            assert scores.totals["llmc"] - before == case["per_batch"][number]["correct"]
            before = scores.totals["llmc"]
            number += 1
    assert number == len(arrays["mask"])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.get("fails")])
def test_where_the_original_fails(name: str) -> None:
    """It refuses, and so do we; a rank behind the end, where it dies, has a batch of filler."""
    if name == "b8_t32_w5_r4":
        (batch,) = loader_of(CASES[name])
        assert (batch.example_ids == -1).all()
        return
    with pytest.raises((tr.InputError, tr.LimitError), match=r"^(batch_rows|seq_len|world_size): got .* expected"):
        loader_of(CASES[name])
