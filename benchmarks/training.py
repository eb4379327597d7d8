"""Training a byte-level BPE: ours beside gigatoken's trainer alone and Hugging Face's, on the same JSON lines.

Texts with characters younger than Unicode 14 are left out, a few in ten thousand (tables of Unicode itself): where one
of the trainers knows such a letter and the other does not, ours is Hugging Face's.

python -m benchmarks.training gigatoken JSONL SIZE      each prints a digest of its merges
python -m benchmarks.training huggingface JSONL SIZE
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from gigatoken import JsonlFileSource, train_bpe
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks import corpus, measure
from benchmarks.build import Place
from benchmarks.measure import Figure, Run, at_most, python
from tokenriver.tokenizers import _risk

VOCAB_SIZE = 32768
SLOWER = 1.2
END = "<|endoftext|>"


def run(place: Place) -> list[Figure]:
    """Everything of this file; Hugging Face's trainer, which takes long, once."""
    texts, out = corpus.texts(place.work, place.megabytes), place.work / "trained.json"
    source = place.work / "without-young-letters.jsonl"
    left_out = _without_young_letters(texts.jsonl, source)
    measure.warm([source])
    ours = python("-m", "tokenriver", "tokenizer", "train", source, "-o", out, "--vocab-size", VOCAB_SIZE)
    names = ("gigatoken", "huggingface")
    others = {name: python("-m", "benchmarks.training", name, source, VOCAB_SIZE) for name in names}
    jobs: dict[str, Callable[[], Run]] = {"ours": partial(measure.call, [*ours, "--json"])}
    jobs["gigatoken"] = partial(measure.call, others["gigatoken"])
    runs = measure.alternate(jobs, place.rounds)
    slow = measure.call(others["huggingface"])
    seconds = {name: measure.median([each.seconds for each in done]) for name, done in runs.items()}
    merges = {_digest(json.loads(out.read_bytes())["model"]["merges"])}
    merges |= {json.loads(each.output.splitlines()[-1])["merges"] for each in (runs["gigatoken"][-1], slow)}
    megabytes = source.stat().st_size / measure.MB
    table = [Figure("documents left out", f"{left_out:,} of {texts.documents:,}")]
    table += [Figure(f"{name}, {megabytes:.0f} MB, {VOCAB_SIZE:,} ids", f"{s:.1f} s") for name, s in seconds.items()]
    return [
        *table,
        Figure("Hugging Face's, the same", f"{slow.seconds:.1f} s", data=slow.seconds),
        at_most("ours, of gigatoken alone", seconds["ours"] / seconds["gigatoken"], SLOWER, unit=" x", data=seconds),
        Figure("Hugging Face's, of ours", f"{slow.seconds / seconds['ours']:.1f} x"),
        Figure("the same merges by all three", str(len(merges) == 1).lower(), "true", len(merges) == 1),
    ]


def _without_young_letters(source: Path, target: Path) -> int:
    """Copy the lines of texts whose characters every supported Unicode table knows; how many are left out."""
    left_out = 0
    with source.open("rb") as lines, target.open("wb") as file:
        for line in lines:
            young = len(_risk.find(orjson.loads(line)["text"].encode())) > 0
            left_out += young
            file.write(b"" if young else line)
    return left_out


def gigatoken(path: str, size: int) -> list[list[str]]:
    """Merges by the native trainer, which reads the file itself."""
    letters = dict(zip(range(256), _letters(), strict=True))
    merges = train_bpe(JsonlFileSource([path]), size - 1, [])[1]
    return [["".join(map(letters.__getitem__, part)) for part in pair] for pair in merges]


def huggingface(path: str, size: int) -> list[list[str]]:
    """Merges as Hugging Face's documentation has one train."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(_texts(path), trainer)
    merges: list[list[str]] = json.loads(library.to_str())["model"]["merges"]
    return merges


def _texts(path: str) -> Iterator[str]:
    with Path(path).open("rb") as file:
        for line in file:
            yield orjson.loads(line)["text"]


def _letters() -> list[str]:
    """The letter of each byte in a tokenizer.json."""
    shown = [ord(letter) for letter in pre_tokenizers.ByteLevel.alphabet() if ord(letter) < 256]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)]


def _digest(merges: Iterable[Any]) -> str:
    return hashlib.sha256(json.dumps([list(pair) for pair in merges]).encode()).hexdigest()


if __name__ == "__main__":
    kind, where, count = sys.argv[1:]
    screen = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the native trainer says what it does
    found = {"gigatoken": gigatoken, "huggingface": huggingface}[kind](where, int(count))
    with open(screen, "w", encoding="ascii") as answer:
        answer.write(json.dumps({"merges": _digest(found)}) + "\n")
