"""The examples train a model that learns, and what they claim about resumes, packings and targets holds."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from examples.gpt import GPT, Shape, inside_sequences
from examples.training import begin

from examples import packings, pretrain
from tokenriver import Corpus

pytestmark = pytest.mark.torch
SHAPE = Shape(257, 32, layers=1, heads=2, width=32)
STEPS = 60


@pytest.fixture(scope="module", autouse=True)
def _torch_made_ready() -> Iterator[None]:
    """One thread; and what torch loads with its first optimizer, which names a folder in the environment."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
        begin(GPT(SHAPE))
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short speeches that are easily foretold."""
    file = tmp_path_factory.mktemp("text") / "speeches.txt"
    who, what = ("KING", "QUEEN", "FOOL"), ("the rain falls", "the river runs", "no more of that", "come away")
    speeches = [f"{who[i % 3]}:\nSay, {what[i % 4]}, and {what[i % 7 % 4]}." for i in range(900)]
    file.write_text("\n\n".join(speeches), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def corpora(text: Path) -> tuple[Corpus, Corpus]:
    return pretrain.corpora([str(text)], text.parent / "corpus", "byte", "blank-line")


def test_a_run_that_goes_on_with_other_ranks_has_the_same_losses(corpora: tuple[Corpus, Corpus]) -> None:
    corpus, held_out = corpora
    whole, parts = pretrain.straight(corpus, SHAPE, STEPS), pretrain.stopped(corpus, SHAPE, STEPS)
    assert whole.curve == pytest.approx(parts.curve, abs=1e-3)
    assert whole.targets == parts.targets == STEPS * pretrain.GLOBAL_BATCH * SHAPE.seq_len
    assert whole.state == parts.state
    assert whole.curve[-1] < whole.curve[0] - 2
    assert pretrain.validate(whole.model, held_out) < pretrain.validate(GPT(SHAPE), held_out) - 2


def test_positions_of_another_document_are_not_seen() -> None:
    positions = torch.tensor([[0, 1, 2, 0, 1, 0]])
    seen = inside_sequences(positions)[0, 0].int().tolist()
    assert seen == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]


def test_scores_inside_a_row_of_documents_are_those_of_each_alone() -> None:
    model = GPT(SHAPE)
    ids = torch.randint(0, 257, (1, 20), generator=torch.Generator().manual_seed(0))
    positions = torch.cat([torch.arange(12), torch.arange(8)])[None]
    together = model(ids, positions)
    alone = torch.cat([model(ids[:, :12]), model(ids[:, 12:])], 1)
    assert torch.allclose(together, alone, atol=1e-5)
    assert not torch.allclose(model(ids), alone, atol=1e-3)


def test_pretraining_shows_both_runs(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrain, "VALIDATED", 2)
    given = [str(text), "-o", str(tmp_path / "c"), "--separator", "blank-line", "--steps", "4", "--seq-len", "16"]
    pretrain.main(given)
    out = capsys.readouterr().out
    difference = re.search(r"largest difference of a step's loss: (\S+);", out)
    assert difference
    assert float(difference[1]) < 1e-3
    assert len(re.findall(r"^ +\d   \d\.\d{4}   \d\.\d{4}$", out, re.MULTILINE)) == 4


def test_packings_are_compared_at_each_length(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packings, "Shape", partial(Shape, layers=1, heads=2, width=32))
    monkeypatch.setattr(packings, "LENGTHS", (48, 96))
    monkeypatch.setattr(packings, "CELLS", 192)
    monkeypatch.setattr(packings, "VALIDATED", 2)
    packings.main([str(text), "-o", str(tmp_path / "c"), "--separator", "blank-line", "--steps", "5"])
    out = capsys.readouterr().out
    rows = re.findall(r"^  (\w+) +([\d,]+) +([\d.]+)% .*?(\d\.\d+)$", out, re.MULTILINE)
    assert [row[0] for row in rows] == ["concat", "best_fit", "document"] * 2
    padding = [float(row[2]) for row in rows]
    assert padding[0] == padding[3] == 0
    assert padding[4] < padding[5]
    assert "targets equal to inputs" in out


def test_targets_equal_to_inputs_teach_nothing(corpora: tuple[Corpus, Corpus], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packings, "Shape", partial(Shape, layers=1, heads=2, width=32))
    monkeypatch.setattr(packings, "CELLS", 256)
    monkeypatch.setattr(packings, "VALIDATED", 2)
    own, real = packings.copying(*corpora, 32, STEPS)
    right = packings.one_way(*corpora, 32, STEPS, ("concat", False))
    assert own < 1
    assert real > right.held_out[-1] + 1
