"""Training a byte-level BPE: ours beside gigatoken's trainer alone and Hugging Face's, on the same JSON lines.

gigatoken's is the same trainer only for texts without characters younger than Unicode 14 (tables of Unicode itself have
some), so those few are left out where ours is compared with it, and kept where ours is compared with Hugging Face's.

python -m benchmarks.training compare JSONL SIZE        the table, of a file and a size of one's own
python -m benchmarks.training gigatoken JSONL SIZE      each prints a digest of its merges
python -m benchmarks.training huggingface JSONL SIZE
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
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
    return compare(corpus.texts(place.work, place.megabytes).jsonl, VOCAB_SIZE, place.work, place.rounds)


def compare(texts: Path, size: int, work: Path, rounds: int) -> list[Figure]:
    """The table of one file of JSON lines."""
    source = work / "without-young-letters.jsonl"
    left_out = _without_young_letters(texts, source)
    measure.warm([texts, source])
    jobs: dict[str, Callable[[], Run]] = {
        "ours": partial(_ours, source, work, size),
        "gigatoken": partial(measure.call, python("-m", "benchmarks.training", "gigatoken", source, size)),
    }
    runs = measure.alternate(jobs, rounds)
    runs["ours, with them"] = [_ours(texts, work, size)]
    slow = "Hugging Face's, with them"
    runs[slow] = [measure.call(python("-m", "benchmarks.training", "huggingface", texts, size))]
    merges = {name: json.loads(done[-1].output.splitlines()[-1])["merges"] for name, done in runs.items()}
    seconds = {name: measure.median([each.seconds for each in done]) for name, done in runs.items()}
    cpu = {name: measure.median([each.cpu for each in done]) for name, done in runs.items()}
    megabytes = source.stat().st_size / measure.MB
    same = merges["ours"] == merges["gigatoken"] and merges["ours, with them"] == merges[slow]
    return [
        Figure("texts with young letters", f"{left_out:,}"),
        *(
            Figure(f"{name}, {megabytes:.0f} MB, {size:,} ids", f"{seconds[name]:.1f} s, {cpu[name]:.1f} CPU s")
            for name in runs
        ),
        at_most("ours, of gigatoken alone", seconds["ours"] / seconds["gigatoken"], SLOWER, unit=" x", data=seconds),
        at_most("the same in CPU seconds", cpu["ours"] / cpu["gigatoken"], SLOWER, unit=" x", data=cpu),
        Figure("Hugging Face's, of ours", f"{seconds[slow] / seconds['ours, with them']:.1f} x"),
        Figure("the same merges", str(same).lower(), "true", same),
    ]


def _ours(texts: Path, work: Path, size: int) -> Run:
    """The command; its output is a digest of its merges."""
    out = work / "trained.json"
    command = python("-m", "tokenriver", "tokenizer", "train", texts, "-o", out, "--vocab-size", size, "--json")
    done = measure.call(command)
    return replace(done, output=json.dumps({"merges": _digest(json.loads(out.read_bytes())["model"]["merges"])}))


def _without_young_letters(source: Path, target: Path) -> int:
    """Copy the lines of texts whose characters every supported Unicode table knows; how many are not copied."""
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


def _alone(kind: str, path: str, size: int) -> None:
    screen = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the native trainer says what it does
    found = {"gigatoken": gigatoken, "huggingface": huggingface}[kind](path, size)
    with open(screen, "w", encoding="ascii") as answer:
        answer.write(json.dumps({"merges": _digest(found)}) + "\n")


def _compare(path: str, size: int) -> None:
    with tempfile.TemporaryDirectory() as work:
        measure.show("training", compare(Path(path), size, Path(work), 1))


if __name__ == "__main__":
    what, where, count = sys.argv[1:]
    if what == "compare":
        _compare(where, int(count))
    else:
        _alone(what, where, int(count))
