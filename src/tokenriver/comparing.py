"""A tokenizer's fast encoder beside its reference, on texts made to tell them apart and on any inputs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import buildplan
from tokenriver.errors import MismatchError
from tokenriver.inputs import find_inputs
from tokenriver.reading import Found, Progress, read_documents
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import Tokenizer


@dataclass(frozen=True, slots=True)
class EncoderReport:
    """What a comparison found; `as_dict` is what --json prints."""

    tokenizer: str
    encoder: str
    """ "fast", or "reference" where there is no fast encoder and so nothing to compare."""
    hostile_texts: int
    """Built-in texts that were compared; they count as one difference."""
    documents: int
    bytes: int
    bad_rows: int
    """Rows of the inputs without a document."""
    differences: int
    """Documents whose ids differ."""
    first: str | None
    """The first difference, in words."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_encoders(
    tokenizer: Tokenizer | str | Path,
    inputs: Sequence[str | Path] = (),
    *,
    source: str = "auto",
    text_field: str = "text",
    search: Sequence[Path] = (),
    progress: Progress | None = None,
) -> EncoderReport:
    """Compare the ids of both encoders of a tokenizer on the built-in hostile texts and on every document of `inputs`
    (as in `build`). `progress(done, total)` is called with stored bytes. InputError for an input that cannot be
    read."""
    known = load_tokenizer(tokenizer, search=search) if isinstance(tokenizer, str | Path) else tokenizer
    files = find_inputs(inputs, source=source) if inputs else []
    differences: list[str] = []
    hostile = documents = size = bad = 0
    try:
        hostile = known.self_check()
    except MismatchError as error:
        differences.append(f"built-in texts: {error}")
    # without a second encoder there is nothing to read the inputs for
    wanted = files if known.encoder == "fast" else []
    for found in read_documents(wanted, buildplan.source_options(text_field, None), progress):
        differences += _differences(known, found)
        documents += len(found.batch.texts)
        size += sum(map(len, found.batch.texts))
        bad += len(found.batch.bad)
    first = differences[0] if differences else None
    return EncoderReport(known.name, known.encoder, hostile, documents, size, bad, len(differences), first)


def _differences(tokenizer: Tokenizer, found: Found) -> list[str]:
    """What differs, a line for each document that does."""
    texts, records = found.batch.texts, found.batch.records.tolist()
    ids, lengths = tokenizer.encode_batch(texts)
    out = []
    for number, row in enumerate(np.split(ids, np.cumsum(lengths)[:-1]) if texts else []):
        try:
            tokenizer.check([texts[number]], row, lengths[number : number + 1])
        except MismatchError as error:
            out.append(f"{found.file.path}: record {found.first + records[number]}: {error}")
    return out
