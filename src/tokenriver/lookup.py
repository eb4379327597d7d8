"""Documents by what is known of them: the record that they came from, or a text that they contain.

Both look through the whole corpus in stretches, so that memory does not grow with it.
"""

from collections.abc import Iterator

import numpy as np

from tokenriver.agreement import tokenizer_of
from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError, InputError
from tokenriver.roles import role_ids
from tokenriver.types import Ids

STRETCH_DOCUMENTS, STRETCH_IDS = 1 << 16, 1 << 20


def of_record(corpus: Corpus, path: str, record: int) -> list[int]:
    """The documents of a raw row (0-based) of an input, by its path in the manifest or the end of it; none if the row
    gave no document in this split. InputError for an input that the corpus has not."""
    known = corpus.manifest.sources if corpus.manifest is not None else ()
    numbers = [i for i, source in enumerate(known) if f"/{source.path}".endswith(f"/{path.lstrip('/')}")]
    exact = [i for i in numbers if known[i].path == path]
    if len(exact or numbers) != 1:
        got = ", ".join(known[i].path for i in numbers[:3]) or "none"
        raise InputError(f"record: source {path!r}: got {got} of the {len(known)} inputs, expected one; give its path")
    (wanted,) = exact or numbers
    found: list[int] = []
    first = 0
    for _, ends, origins in corpus.documents.between(0, corpus.num_documents or 0):
        if origins is None:
            raise FormatError(f"{corpus.path}: got documents without their sources, expected a corpus that keeps them")
        for at in range(0, len(ends), STRETCH_DOCUMENTS):
            records, sources = (column[at : at + STRETCH_DOCUMENTS] for column in origins)
            found += (np.flatnonzero((records == record) & (sources == wanted)) + (first + at)).tolist()
        first += len(ends)
    return found


def with_text(corpus: Corpus, text: str) -> Iterator[int]:
    """The documents that decode to something that contains a text, in order, their framing aside. Every document is
    decoded: where a text is cut into ids depends on what stands around it."""
    if not text:
        raise InputError("text: got an empty one, expected some")
    tokenizer = corpus.load_tokenizer()
    wanted = text.encode("utf-8", "surrogateescape")
    roles = role_ids(tokenizer_of(corpus) or tokenizer)
    control = {roles["bos"], roles["eos"]} - {None}
    framed = corpus.manifest is not None and corpus.manifest.framing != "none"
    for number, ids in _documents(corpus):
        if wanted in tokenizer.decode_bytes(_unframed(ids, control) if framed else ids):
            yield number


def _documents(corpus: Corpus) -> Iterator[tuple[int, Ids]]:
    """(number, ids) of every document that has any, about a million ids read at a time."""
    count = corpus.num_documents
    if count is None:
        raise FormatError(f"{corpus.path}: got no document bounds, expected them; give eos_id when opening it")
    start = first = 0
    for begin, column, _ in corpus.documents.between(0, count):
        at = 0
        while at < len(column):
            # as many documents as fit, or one that is longer
            stop = int(np.searchsorted(column, start - begin + STRETCH_IDS, "right"))
            ends = (column[at : max(at + 1, stop)] + begin).tolist()
            ids, base = corpus.read(start, ends[-1]), start
            for number, end in enumerate(ends, first + at):
                if end > start:
                    yield number, ids[start - base : end - base]
                start = end
            at += len(ends)
        first += len(column)


def _unframed(ids: Ids, control: set[int | None]) -> Ids:
    """A document without the control ids at its ends."""
    first = int(len(ids) > 0 and int(ids[0]) in control)
    last = len(ids) - int(len(ids) > first and int(ids[-1]) in control)
    return ids[first:last]
