"""How much of each tokenizer's own rate a build keeps: its encoder alone on texts in memory, and the build of the same.

CPU seconds decide, of all processes together, less those of a build of one text (interpreters, tables). What is left
beside the encoder (reading, framing, comparing, writing) costs about the same for every tokenizer, so one that is
slower than gpt2's must keep at least the share that gpt2's keeps; for faster ones the table shows what is left.

python -m benchmarks.tokenizers TOKENIZER TEXT.jsonl      the encoder alone: CPU seconds, ids and bytes as JSON
"""

import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import zstandard
from sentencepiece import SentencePieceTrainer

import tokenriver
from benchmarks import build, corpus, measure
from benchmarks.build import Place
from benchmarks.measure import MB, Figure, Run, at_least, python

KEPT = 0.9
"""Of gpt2's share: what runs differ by."""
BATCH_BYTES = 1 << 22
TRAINED_BYTES = 2 * MB
SLOWER = 20
"""Times less text for encoders that have no fast one."""
LLAMA: dict[str, Any] = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
LLAMA_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A tokenizer, by the word that a build takes, and the text that it gets."""

    name: str
    given: str
    text: Path


def run(place: Place) -> list[Figure]:
    """One line a tokenizer."""
    texts = corpus.texts(place.work, place.megabytes)
    folder = place.work / "tokenizers"
    folder.mkdir(exist_ok=True)
    entries = _entries(place, folder, texts.jsonl)
    one = _beginning(folder / "one.jsonl", texts.jsonl, 1)
    measure.warm([entry.text for entry in entries])
    jobs: dict[str, Callable[[], Run]] = {}
    for entry in entries:
        jobs[f"{entry.name}, alone"] = partial(measure.call, python("-m", "benchmarks.tokenizers", *_words(entry)))
        jobs[f"{entry.name}, build"] = partial(_build, place, entry, entry.text)
        jobs[f"{entry.name}, start"] = partial(_build, place, entry, one)
    runs = measure.alternate(jobs, place.rounds)
    measure.drop(place.out)
    return _table(entries, runs)


def _table(entries: list[Entry], runs: dict[str, list[Run]]) -> list[Figure]:
    figures: list[Figure] = []
    first: tuple[float, float] | None = None
    for entry in entries:
        said = [json.loads(one.output) for one in runs[f"{entry.name}, alone"]]
        alone = measure.median([one["cpu"] for one in said])
        whole, start = (
            measure.median([one.cpu for one in runs[f"{entry.name}, {part}"]]) for part in ("build", "start")
        )
        size = said[0]["bytes"] / MB
        built = max(whole - start, 1e-9)
        share, rate = alone / built, size / alone
        first = first or (share, rate)
        shown = (
            f"{rate:.1f} MB/s alone, {size / built:.1f} built, {1000 * (built - alone) / size:.1f} CPU s a GB beside"
        )
        figures.append(Figure(f"{entry.name}, {size:.0f} MB of one core", shown, data=said))
        wanted = round(KEPT * first[0], 2) if rate <= 1.1 * first[1] else 0.0
        share_name = f"{entry.name}: share that a build keeps"
        figures.append(at_least(share_name, share, wanted) if wanted else Figure(share_name, f"{share:.2f}"))
    return figures


def _entries(place: Place, folder: Path, source: Path) -> list[Entry]:
    """gpt2 first; then one of each kind, made of the same text."""
    whole = _beginning(folder / "text.jsonl", source, place.megabytes * MB)
    few = _beginning(folder / "few.jsonl", source, place.megabytes * MB // SLOWER)
    sample = _beginning(folder / "sample.jsonl", source, TRAINED_BYTES)
    ranks = folder / "own.cl100k_base.tiktoken"
    ranks.write_bytes(zstandard.ZstdDecompressor().decompress(build.RANKS.read_bytes()))
    plain = folder / "tokenizer.json"
    tokenriver.train_tokenizer(sample, plain, vocab_size=8192)
    tokenriver.write_characters(whole, folder / "meta.pkl")
    given = {
        "rank table, split as cl100k": ranks,
        "tokenizer.json, split as Llama 3": _changed(plain, "llama.json", pre_tokenizer=_llama()),
        "sentencepiece": _pieces(folder / "own.model", sample, LLAMA),
        "char": folder / "meta.pkl",
        "byte": "byte",
    }
    slow = {
        "tokenizer.json, slow engine": _changed(plain, "nfc.json", normalizer={"type": "NFC"}),
        "sentencepiece, slow engine": _pieces(folder / "normalizing.model", sample, {}),
    }
    return [
        *(Entry(name, str(path), whole) for name, path in {"gpt2": "gpt2", **given}.items()),
        *(Entry(name, str(path), few) for name, path in slow.items()),
    ]


def _pieces(out: Path, sample: Path, options: Mapping[str, Any]) -> Path:
    model = io.BytesIO()
    usual: dict[str, Any] = {"vocab_size": 4000, "model_type": "bpe", "byte_fallback": True, "minloglevel": 2}
    SentencePieceTrainer.train(sentence_iterator=_lines(sample), model_writer=model, **usual, **options)
    out.write_bytes(model.getvalue())
    return out


def _changed(path: Path, name: str, **sections: object) -> Path:
    """A tokenizer.json with other sections."""
    out = path.with_name(name)
    out.write_text(json.dumps({**json.loads(path.read_text()), **sections}))
    return out


def _llama() -> dict[str, object]:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    cut = {"type": "Split", "pattern": {"Regex": LLAMA_SPLIT}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut, level]}


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for line in file:
            yield from orjson.loads(line)["text"].splitlines()


def _beginning(out: Path, source: Path, size: int) -> Path:
    """The first lines of a file, of so many bytes or just over."""
    with source.open("rb") as lines, out.open("wb") as file:
        for line in lines:
            file.write(line)
            if file.tell() >= size:
                break
    return out


def _words(entry: Entry) -> list[str]:
    return [entry.given, str(entry.text)]


def _build(place: Place, entry: Entry, text: Path) -> Run:
    measure.drop(place.out)
    words = [text, "-o", place.out, "--tokenizer", entry.given, "--workers", build.WORKERS, "--framing", "none"]
    return measure.call(python("-m", "tokenriver", "build", *words, "--json"))


def _alone(given: str, text: str) -> dict[str, float]:
    """The encoder on texts in memory, as batches come in a build; it has seen one text before."""
    tokenizer = tokenriver.load_tokenizer(given)
    with Path(text).open("rb") as file:
        texts = [orjson.loads(line)["text"].encode() for line in file]
    tokenizer.encode_batch([texts[0][:100]])
    batch: list[bytes] = []
    held, ids, begin = 0, 0, time.process_time()
    for one in [*texts, None]:
        if one is None or held >= BATCH_BYTES:
            ids += len(tokenizer.encode_batch(batch)[0])
            batch, held = [], 0
        if one is not None:
            batch.append(one)
            held += len(one)
    return {"cpu": time.process_time() - begin, "ids": ids, "bytes": sum(map(len, texts))}


if __name__ == "__main__":
    print(json.dumps(_alone(*sys.argv[1:])))
