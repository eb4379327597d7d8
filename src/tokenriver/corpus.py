"""A corpus: all shards of one split as one river of ids, with its documents and where they came from.

An open corpus keeps the manifest that it has read: what is appended later is seen by the next opening. It pickles as
the call that opened it, and may be used after a fork and by several threads.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver.contents import Asked, Contents, Shard, check_tokenizer, look, make_mask, make_shelf
from tokenriver.defaults import CHARACTERS, CHARACTERS_FILE
from tokenriver.documents import DocumentBounds, Parting
from tokenriver.errors import FormatError, InputError, LimitError, MismatchError, MissingPackageError
from tokenriver.lossmask import LossMask
from tokenriver.manifest import Manifest, TokenizerInfo, index_name
from tokenriver.mapped import Mapped, Raw
from tokenriver.river import Out, River
from tokenriver.storage import UNKNOWN
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import Ids, Int64, Tokenizer
from tokenriver.weights import WeightMask

# files without a manifest hold GPT-2's ids by the custom of nanoGPT and llm.c, if the ids allow it
CUSTOMARY = ("gpt2", 50256)
PLAN_FOLDER = "plans"
# a manifest may name a tokenizer, never a file to read or a module to import
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


def open_corpus(
    path: str | Path,
    *,
    split: str = "train",
    format: str | None = None,
    tokenizer: str | Path | Tokenizer | None = None,
    tokenizer_search: Sequence[Path] = (),
    source_root: str | Path | None = None,
    dtype: str | None = None,
    eos_id: int | None = None,
    framing: str = "eos-after",
) -> "Corpus":
    """Open one split of a corpus: a folder with a manifest, or a file, folder or glob of shards of any known format.

    `format` insists on one instead of looking; `tokenizer` is used instead of the manifest's name, and must have its
    fingerprint; `tokenizer_search` are folders with rank files; `source_root` is where the inputs lie now; `dtype` is
    for files that do not say theirs; `eos_id` finds documents in files without bounds by the id that ends each of them
    (or, with framing "eos-before", begins each), which reads all ids once. Raises InputError (nothing there) and
    FormatError (damaged, or not a corpus)."""
    root = Path(source_root).absolute() if source_root is not None else None
    parting = Parting(eos_id, framing) if eos_id is not None else None
    asked = Asked(Path(path).absolute(), split, format, tokenizer, tuple(tokenizer_search), root, dtype, parting)
    return Corpus(asked, look(asked))


def _reopen(asked: Asked, fingerprint: str) -> "Corpus":
    contents = look(asked)
    if contents.fingerprint != fingerprint:
        raise MismatchError(
            f"{asked.path}: fingerprint: got {contents.fingerprint}, expected {fingerprint}; the corpus was changed "
            "after it was opened: open it again"
        )
    return Corpus(asked, contents)


class Corpus:
    """num_tokens ids in river order. `fingerprint` is the hash of what determines them; `assumptions` are what could
    not be read from the files, in words; `row_length` is the ids of a row, in files of rows."""

    def __init__(self, asked: Asked, contents: Contents) -> None:
        self._asked = asked
        self._contents = contents
        self.path: Path = asked.path
        self.format: str = contents.format
        self.split: str = contents.split
        self.splits: tuple[str, ...] = contents.splits
        self.shards: tuple[Shard, ...] = contents.shards
        self.manifest: Manifest | None = contents.manifest
        self.fingerprint: str = contents.fingerprint
        self.dtype: np.dtype[Any] = contents.dtype
        sizes = np.array([shard.num_tokens for shard in contents.shards], np.int64)
        self._river = River(sizes, contents.dtype, make_shelf(contents))
        self.num_tokens: int = self._river.num_tokens
        self.row_length: int | None = contents.row_length
        self.loss_mask: LossMask | WeightMask | None = make_mask(contents)
        self.has_loss_mask: bool = self.loss_mask is not None
        counts = [shard.num_documents for shard in contents.shards if shard.num_documents is not None]
        known = counts if len(counts) == len(contents.shards) else None
        self.documents = DocumentBounds(self._river, [shard.path for shard in self.shards], known, asked.parting)
        self.num_documents: int | None = self.documents.count
        self._tokenizer: tuple[Tokenizer | None] | None = None

    def __repr__(self) -> str:
        return f"<Corpus {self.path} {self.split}: {self.num_tokens:,} {self.dtype} ids, {len(self.shards):,} shards>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._asked, self.fingerprint)

    @property
    def plan_folder(self) -> Path | None:
        """Where plans of rows are kept; None for shards without a manifest."""
        return None if self._contents.root is None else self._contents.root / PLAN_FOLDER

    # ------------------------------------------------------------------------------------------ ids

    def read(self, start: int, stop: int) -> Ids:
        """A copy of the ids [start, stop) of the river, in the stored dtype; LimitError outside it."""
        return self._river.read(start, stop)

    def blocks(self, start: int, stop: int) -> Iterator[Ids]:
        """The ids [start, stop) in order, a million at a time, views where possible; LimitError outside the river."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise LimitError(f"blocks: got [{start}, {stop}), expected a range within [0, {self.num_tokens})")
        return self._river.blocks(start, stop)

    def gather(self, starts: Int64, n: int, out: Out) -> None:
        """Fill out (k, n), any integer dtype, with the ids [s, s + n) of each of starts (k,), windows crossing shards
        where they must; LimitError outside the river or for an id that out's dtype cannot hold."""
        self._river.gather(starts, n, out)

    def cut(self, starts: Int64, sizes: Int64 | int) -> Raw | None:
        """Look up where windows or runs lie, for calls of gather or take to come; None where that gains nothing."""
        return self._river.cut(starts, sizes)

    def mapped(self) -> Mapped | None:
        """Where all ids lie, if they lie in mapped files that need no decoding."""
        return self._river.mapped()

    def take(self, starts: Int64, sizes: Int64, out: Out) -> None:
        """Fill out, row by row, with the ids [s, s + n) of each start and size, (k,) int64, one run after another; a
        start of -1 stands for zeros. LimitError outside the river or for an id that out's dtype cannot hold."""
        self._river.take(starts, sizes, out)

    # ------------------------------------------------------------------------------------ documents

    def doc_ends(self) -> Int64:
        """(num_documents,) int64: the river position after each document, 8 bytes a document."""
        self._need_documents()
        return self.documents.ends()

    def doc_bounds(self, index: int) -> tuple[int, int]:
        """River positions [start, stop) of a document, framing included; LimitError for one that is not there."""
        self._need_documents()
        return self.documents.bounds(index)

    def document(self, index: int) -> Ids:
        """The ids of a document, framing included."""
        return self.read(*self.doc_bounds(index))

    def document_at(self, position: int) -> int:
        """The document that holds a river position, in O(log num_documents)."""
        self._need_documents()
        return self.documents.at(position)

    def documents_at(self, positions: Int64) -> Int64:
        """The document that holds each river position, (k,) int64 both; the positions lie in [0, num_tokens)."""
        self._need_documents()
        return self.documents.at_all(positions)

    def ends_of(self, documents: Int64) -> Int64:
        """The river position behind each document, (k,) int64 both; the documents lie in [0, num_documents)."""
        self._need_documents()
        return self.documents.ends_of(documents)

    def source(self, index: int) -> tuple[str, int]:
        """(path, record) of a document: its input as the manifest has it, below source_root if given, and its 0-based
        raw row in that."""
        found = self.origin(index)
        if found is None:
            path = self.shards[self.documents.locate(index)[0]].path
            raise FormatError(f"{path}: source of document {index}: got none, expected a corpus that keeps them")
        return found

    def origin(self, index: int) -> tuple[str, int] | None:
        """What `source` gives, or None for a document that came from nowhere that is known."""
        self._need_documents()
        shard, local = self.documents.locate(index)
        origins = self.documents.columns(shard)[1]
        if origins is None or int(origins[1][local]) == UNKNOWN:
            return None
        number = int(origins[1][local])
        known = self.manifest.sources if self.manifest is not None else ()
        if not 0 <= number < len(known):
            path = self.shards[shard].path
            raise FormatError(
                f"{path.with_name(index_name(path.name))}: source of document {local}: got {number}, expected one of "
                f"the {len(known)} of the manifest"
            )
        root, name = self._asked.source_root, known[number].path
        return (name if root is None else str(root / name)), int(origins[0][local])

    def walk(self) -> Iterator[tuple[int, int, Ids]]:
        """(source number, record, ids) of every document in river order; ids are mapped views where they can be,
        framing included."""
        self._need_documents()
        return self.documents.walk()

    def _need_documents(self) -> None:
        if self.num_documents is None:
            raise FormatError(
                f"{self.path}: got a {self.format} corpus without document bounds, expected them; give eos_id, or "
                "convert from one that has them"
            )

    # ----------------------------------------------------------------------------------------- text

    @property
    def _made_by(self) -> TokenizerInfo | None:
        return self.manifest.tokenizer if self.manifest is not None else None

    @property
    def tokenizer_fingerprint(self) -> str | None:
        """sha256 of what determines the tokenizer that made the ids; None where that is not known."""
        return self._made_by.fingerprint if self._made_by is not None else None

    @property
    def vocab_size(self) -> int | None:
        """One more than the largest id that the tokenizer has; None where no tokenizer is known."""
        if self._made_by is not None:
            return self._made_by.vocab_size
        if self._contents.vocab_size is not None:
            return self._contents.vocab_size
        return self.tokenizer.vocab_size if self._asked.tokenizer is not None and self.tokenizer else None

    @property
    def eos_id(self) -> int | None:
        """The id that ends texts, by the manifest or as given when opening; None where neither says."""
        if self._made_by is not None:
            return self._made_by.eos_id
        if self._asked.parting is not None:
            return self._asked.parting.id
        return self.given_tokenizer.eos_id if self.given_tokenizer is not None else None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the files do not say and opening took for granted, one sentence each."""
        found = self._contents.assumptions
        if self.manifest is None and self._asked.tokenizer is None and self._customary() == CUSTOMARY[0]:
            found += (f"ids are {CUSTOMARY[0]}'s: no larger id was seen in the sample",)
        return found

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, loaded when first asked for; None, with one warning, if the manifest's cannot be found.
        MismatchError if it is not the one that made these ids."""
        if self._tokenizer is None:
            self._tokenizer = (self._find_tokenizer(),)
        return self._tokenizer[0]

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text of some ids; without a tokenizer the ids themselves, as in `⟨50256⟩`."""
        if self.tokenizer is None:
            return "".join(f"⟨{int(number)}⟩" for number in ids)
        return self.tokenizer.decode(ids)

    @property
    def _home(self) -> Path:
        """The folder of what belongs to all shards."""
        return self._contents.root or self._contents.shards[0].path.parent

    def _customary(self) -> str | None:
        name, largest = CUSTOMARY
        if self._contents.vocab_size is not None and (self._home / CHARACTERS_FILE).is_file():
            return CHARACTERS
        if self._contents.vocab_size not in (None, largest + 1):
            return None
        seen = self._contents.largest
        return name if seen is not None and seen <= largest and self.dtype.itemsize >= 2 else None

    def _find_tokenizer(self) -> Tokenizer | None:
        if self._asked.tokenizer is None and self._made_by is None and self._customary() is None:
            return None
        try:
            return self.load_tokenizer()
        except (InputError, MissingPackageError) as error:
            if self._asked.tokenizer is not None:
                raise
            warnings.warn(f"{error}; ids are shown instead of text", stacklevel=4)
            return None

    @property
    def given_tokenizer(self) -> Tokenizer | None:
        """The tokenizer that the caller named, checked; None if none was, whatever the files may use by custom."""
        return self.tokenizer if self._asked.tokenizer is not None else None

    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer that was given, else the manifest's; what is missing or another's is an error."""
        given, search = self._asked.tokenizer, self._asked.tokenizer_search
        if given is None:
            given = self._made_by.name if self._made_by is not None else self._customary()
            if given is None or not _PLAIN_NAME.fullmatch(given):
                raise InputError(f"{self.path}: tokenizer: got the name {given!r} alone; give its file as tokenizer")
        search = (self._home, *search) if given == CHARACTERS else search
        found = load_tokenizer(given, search=search) if isinstance(given, str | Path) else given
        check_tokenizer(self.path, self._contents, found)
        return found
