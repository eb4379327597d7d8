"""The example of post-training: what is trained are answers alone, and each training does what it is for."""

import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from examples.aligning import log_probs, pair_loader
from examples.gpt import GPT, Shape, losses

from examples import posttrain, questions
from tokenriver import IGNORE, Batch, ChoiceExamples, Message
from tokenriver.types import Ids

pytestmark = pytest.mark.torch
SHAPE = Shape(257, posttrain.SEQ_LEN, layers=1, width=32)
STEPS, MORE = 50, 40
RIGHT = {question.text: question.right for question in questions.questions()}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> questions.Data:
    return questions.make(tmp_path_factory.mktemp("posttrain"))


@pytest.fixture(scope="module")
def done(data: questions.Data) -> posttrain.Outcome:
    return posttrain.post_train(data, SHAPE, STEPS, MORE)


def conversation(data: questions.Data, question: str, answer: str) -> Ids:
    talk = [Message("user", question), Message("assistant", answer)]
    return data.chat.encode([data.chat.render(talk)]).ids


def sequences(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """(ids, targets) of each sequence of a batch that has targets."""
    edges = batch.cu_seqlens.tolist()[1:-1]
    parts = zip(*(np.split(part.ravel(), edges) for part in (batch.input_ids, batch.targets)), strict=True)
    return [(ids.tolist(), targets.tolist()) for ids, targets in parts if (targets != IGNORE).any()]


def asked(text: str) -> str:
    """The question of a conversation."""
    found = re.fullmatch(r"<\|user\|>\n(.*?)<\|endoftext\|>.*", text, re.DOTALL)
    assert found, text
    return found[1]


def test_only_answers_and_their_ends_are_trained(data: questions.Data) -> None:
    loader = posttrain.answer_loader(data.answers)
    seen = 0
    for batch, _ in zip(loader, range(3), strict=False):
        for ids, targets in sequences(batch):
            trained = [target for target in targets if target != IGNORE]
            question = asked(data.chat.tokenizer.decode(ids))
            assert data.chat.tokenizer.decode(trained) == RIGHT[question] + "<|endoftext|>"
            assert trained[-1] == data.chat.tokenizer.eos_id
            assert [*ids, trained[-1]] == conversation(data, question, RIGHT[question]).tolist()
            seen += 1
    assert seen > 3 * posttrain.ROWS  # more than one a row


def test_nothing_that_is_judged_was_trained_on(data: questions.Data) -> None:
    parts = []
    for corpus, rows in ((data.answers, 1), (data.held_out, 1), (data.pairs, 2), (data.judged, 2)):
        texts = [data.chat.tokenizer.decode(ids) for _, _, ids in corpus.walk()]
        parts.append([asked(text) for text in texts[::rows]])
    contexts = [data.choices.pieces(number)[0] for number in range(len(data.choices))]
    parts.append([asked(data.chat.tokenizer.decode(context)) for context in contexts])
    assert sorted(chain(*parts)) == sorted(RIGHT)


def test_choices_are_asked_as_conversations_are(data: questions.Data) -> None:
    examples: ChoiceExamples = data.choices
    for number in range(20):
        context, *choices = examples.pieces(number)
        right = choices[int(examples.labels[number])]
        question = asked(data.chat.tokenizer.decode(context))
        assert np.concatenate([context, right]).tolist() == conversation(data, question, RIGHT[question]).tolist()


def test_log_probs_of_a_batch_are_those_of_each_answer_alone(data: questions.Data) -> None:
    model = GPT(SHAPE)
    batch = pair_loader(data.judged, order="sequential", epochs=1).batch(0)
    together = log_probs(model, batch)
    assert batch.lengths.min() < batch.lengths.max()  # some rows are filled up
    for side, number in np.ndindex(batch.lengths.shape):
        row = batch.ids[side, number, : batch.lengths[side, number]]
        question, answer = asked(data.chat.tokenizer.decode(row)), chr(row[-2])
        assert (answer == RIGHT[question]) == (side == 0)
        ids = torch.from_numpy(conversation(data, question, answer).astype(np.int64))[None]
        alone = -losses(model(ids[:, :-1]), ids[:, 1:])[0, -2:].sum()
        assert together[side, number].item() == pytest.approx(alone.item(), abs=1e-4)


def test_each_training_does_what_it_is_for(done: posttrain.Outcome) -> None:
    before, fine_tuned, aligned = done.stages
    curve = done.fine_tuned.curve
    assert curve[-1] < curve[0] - 3
    assert fine_tuned.loss < before.loss - 3
    assert before.right < 0.45
    assert fine_tuned.right > 0.55
    assert aligned.right > fine_tuned.right
    assert fine_tuned.pairs.margin == 0
    assert aligned.pairs.margin > 0.5
    assert aligned.pairs.preferred > 0.7
    assert done.margins[0] == 0
    assert sum(done.margins[-5:]) > sum(done.margins[:5]) + 1


def test_the_reference_stays_as_it_was(data: questions.Data, done: posttrain.Outcome) -> None:
    assert not any(weights.requires_grad for weights in done.reference.parameters())
    assert posttrain.accuracy(done.reference, data.choices) == done.stages[1].right


def test_posttrain_shows_the_three_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CHOICES", 16), ("JUDGED", 16), ("VAL_FRACTION", 0.02)):
        monkeypatch.setattr(questions, name, value)
    given = ["-o", str(tmp_path / "made"), "--steps", "2"]
    posttrain.main(given)
    out = capsys.readouterr().out
    posttrain.main(given)  # all that is built is there already
    assert capsys.readouterr().out == out
    assert re.search(r"^ +before +fine-tuned +aligned$", out, re.MULTILINE)
    assert re.search(r"^right choices \(chance 33%\) +(\d+% *){3}$", out, re.MULTILINE)
    assert re.search(r"^margin against the fine-tuned model +-?\d+\.\d+ +0\.00 +-?\d+\.\d+$", out, re.MULTILINE)
