"""Inputs -> a tokenizer of their own: a byte-level BPE in a tokenizer.json, which a build takes by its path."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenriver import buildplan, files, registry
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.reading import Progress, read_documents, refuse_input
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import SourceOptions

SPECIAL = ("<|endoftext|>",)
"""The control tokens, if none are named: the end of a text, which a build's framing needs."""
TRAINERS = ("fast", "reference")
MAX_VOCAB = 1 << 20


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What training made; `as_dict` is what --json prints."""

    path: Path
    vocab_size: int
    special: dict[str, int]
    """Id by control token."""
    fingerprint: str
    documents: int
    bytes: int
    bad_rows: int
    """Rows without a document; a build lists them."""
    trainer: str = "reference"
    """ "fast" or "reference": which one made the vocabulary, the same from both."""
    reason: str = ""
    """Why it was not the fast one, where that was asked for."""
    split_by_reference: int = 0
    """Texts that the fast trainer would have split differently, for a letter that only one of the two knows yet."""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "path": str(self.path)}


@dataclass(slots=True)
class _Counts:
    documents: int = 0
    num_bytes: int = 0
    bad_rows: int = 0


def train_tokenizer(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    vocab_size: int,
    special: Sequence[str] = SPECIAL,
    source: str = "auto",
    text_field: str = "text",
    separator: str | None = None,
    include: Sequence[str] = (),
    trainer: str = "fast",
    progress: Progress | None = None,
) -> TrainingReport:
    """Train a byte-level BPE of exactly vocab_size ids (special tokens first, then 256 bytes, then merges) on all texts
    of `inputs` (as in `build`), and write it as tokenizer.json to the file `out`. The same texts in any order of the
    inputs, on any number of threads, give the same bytes, from `trainer` "fast" (gigatoken's, which needs room for the
    text beside `out`) and "reference" (Hugging Face's) alike. `progress(done, total)` is called with stored bytes.
    InputError for an input that cannot be read, and for texts that give fewer ids; MissingPackageError without the
    extra `huggingface`."""
    path = Path(out)
    _check(path, vocab_size, special)
    if trainer not in TRAINERS:
        raise InputError(f"trainer: got {trainer!r}, expected fast or reference; choose one")
    module = registry.load("tokenizers", "huggingface")
    found = find_inputs([inputs] if isinstance(inputs, str | Path) else list(inputs), source=source, include=include)
    refuse_input(path, found)
    counts = _Counts()
    texts = _texts(found, buildplan.source_options(text_field, separator), counts, progress)
    files.make_folder(path.parent)
    reason, apart = "", 0
    if trainer == "fast":
        config, made, reason, apart = module.train_fast(texts, vocab_size, special, path)
    else:
        config, made = module.train(texts, vocab_size, special)
    if made != vocab_size:
        raise InputError(
            f"vocab_size: got {vocab_size}, expected at most {made}, which is all that {counts.documents} texts of "
            f"{counts.num_bytes} bytes give; lower it, or train on more text"
        )
    files.write_atomic(path, config)
    return TrainingReport(
        path=path,
        vocab_size=made,
        special={name: number for number, name in enumerate(special)},
        fingerprint=load_tokenizer(path, encoder="reference").fingerprint,
        documents=counts.documents,
        bytes=counts.num_bytes,
        bad_rows=counts.bad_rows,
        trainer="reference" if reason else trainer,
        reason=reason,
        split_by_reference=apart,
    )


def _check(path: Path, vocab_size: int, special: Sequence[str]) -> None:
    if path.suffix != ".json":
        raise InputError(f"{path}: name: got {path.suffix or 'no ending'!r}, expected .json, by which it is loaded")
    least = 256 + len(special)
    if not least <= vocab_size <= MAX_VOCAB:
        raise InputError(
            f"vocab_size: got {vocab_size}, expected {least} (256 bytes and the special tokens) to {MAX_VOCAB}"
        )
    if len(set(special)) != len(special):
        raise InputError(f"special: got {', '.join(special)}, expected each token once")
    for token in special:
        # one character could be the letter that stands for a byte
        if len(token) < 2 or not token.isprintable():
            raise InputError(f"special: got {token!r}, expected at least two printable characters, as in <|endoftext|>")


def _texts(
    inputs: Sequence[InputFile], options: SourceOptions, counts: _Counts, progress: Progress | None
) -> Iterator[list[bytes]]:
    """Batches of texts, counted as they go by."""
    for found in read_documents(inputs, options, progress):
        counts.documents += len(found.batch.texts)
        counts.num_bytes += sum(map(len, found.batch.texts))
        counts.bad_rows += len(found.batch.bad)
        yield found.batch.texts
