"""The characters of a text, which nanoGPT's character models have as their vocabulary: one pass over all inputs, then a
file that the build loads like any other tokenizer's.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import buildfolder, buildplan, files, registry
from tokenriver.defaults import CHARACTERS, CHARACTERS_FILE
from tokenriver.engines.nursery import TokenizerName
from tokenriver.errors import InputError, MismatchError
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.manifest import BUILD_FOLDER, MANIFEST_NAME
from tokenriver.reading import Progress, read_documents, refuse_input
from tokenriver.types import SourceOptions

CODE_POINTS = 0x110000


@dataclass(frozen=True, slots=True)
class CharactersReport:
    """What a pass over the inputs found; `as_dict` is what --json prints."""

    path: Path
    characters: str
    """Sorted by code point: the place of each is its id."""
    documents: int
    bad_rows: int
    """Rows without a document; a build lists them."""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "path": str(self.path), "vocab_size": len(self.characters)}


def write_characters(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    source: str = "auto",
    text_field: str = "text",
    separator: str | None = None,
    include: Sequence[str] = (),
    progress: Progress | None = None,
) -> CharactersReport:
    """Write the characters of all texts of `inputs` (as in `build`) as nanoGPT's meta.pkl to the file `out`, which
    `build` then takes as tokenizer. `progress(done, total)` is called with stored bytes. InputError for an input that
    cannot be read, or inputs without a text."""
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    found = find_inputs(given, source=source, include=include)
    refuse_input(Path(out), found)
    return _write(found, buildplan.source_options(text_field, separator), Path(out), progress)


def settle(
    name: TokenizerName, inputs: Sequence[InputFile], out: Path, options: SourceOptions, progress: Progress | None
) -> TokenizerName:
    """The name of a build's tokenizer, where `char` is the vocabulary in the committed corpus at `out`, or is made now
    of the build's own inputs, in the hidden folder."""
    if name.name != CHARACTERS:
        return name
    path = out / CHARACTERS_FILE
    if not (out / MANIFEST_NAME).exists():
        path = out / BUILD_FOLDER / CHARACTERS_FILE
        files.make_folder(path.parent)
        with buildfolder.locked(path.parent):
            _write(inputs, options, path, progress)
    elif not path.is_file():
        raise MismatchError(f"{out}: holds a corpus built with another tokenizer than 'char'; choose another folder")
    return name._replace(name=str(path))


def _write(
    inputs: Sequence[InputFile], options: SourceOptions, path: Path, progress: Progress | None
) -> CharactersReport:
    seen = np.zeros(CODE_POINTS, np.bool_)
    documents = bad = 0
    for found in read_documents(inputs, options, progress):
        text = b"".join(found.batch.texts)
        if text.isascii():
            seen[np.frombuffer(text, np.uint8)] = True
        else:
            seen[np.frombuffer(text.decode().encode("utf-32-le"), np.uint32)] = True
        documents += len(found.batch.texts)
        bad += len(found.batch.bad)
    letters = "".join(map(chr, np.flatnonzero(seen).tolist()))
    if not letters:
        raise InputError(f"{inputs[0].path}: got {documents} texts and {bad} bad rows, expected some with a character")
    registry.load("formats", "nanogpt").write_characters(path, letters)
    return CharactersReport(path, letters, documents, bad)
