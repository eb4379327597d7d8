"""Corpora end to end as one flow, the form in which a writer of corpora reads (`storage.Flow`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError
from tokenriver.storage import BLOCK_IDS, UNKNOWN, Columns
from tokenriver.types import Bools, Ids, Int32, Int64


@dataclass(frozen=True, slots=True)
class Member:
    """A corpus in a join: where its ids, its documents and its sources begin."""

    corpus: Corpus
    position: int
    document: int
    source: int


class Joined:
    """Corpora end to end; one without document bounds counts each of its shards as a document."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self._members: list[Member] = []
        position = document = source = 0
        for corpus in corpora:
            self._members.append(Member(corpus, position, document, source))
            position += corpus.num_tokens
            document += corpus.num_documents if corpus.num_documents is not None else len(corpus.shards)
            source += len(corpus.manifest.sources) if corpus.manifest is not None else 0
        self.num_tokens, self.num_documents = position, document
        self._positions = [member.position for member in self._members]
        self._documents = [member.document for member in self._members]

    def _member(self, starts: list[int], at: int) -> int:
        """The member that holds a position or a document; of an empty one and the next, the next."""
        return int(np.searchsorted(starts, at, "right")) - 1

    def blocks(self, start: int, stop: int) -> Iterator[Ids]:
        number = self._member(self._positions, start)
        while start < stop:
            member = self._members[number]
            end = min(stop, member.position + member.corpus.num_tokens)
            yield from member.corpus.blocks(start - member.position, end - member.position)
            start, number = end, number + 1

    def trained(self, start: int, stop: int) -> Iterator[Bools]:
        """The loss mask of the ids [start, stop), a million at a time; in a corpus without one all are trained."""
        number = self._member(self._positions, start)
        while start < stop:
            member = self._members[number]
            end = min(stop, member.position + member.corpus.num_tokens)
            mask = member.corpus.loss_mask
            if mask is not None:
                yield from mask.blocks(start - member.position, end - member.position)
            else:
                for at in range(start, end, BLOCK_IDS):
                    yield np.ones(min(BLOCK_IDS, end - at), np.bool_)
            start, number = end, number + 1

    def ended(self, position: int) -> int:
        number = self._member(self._positions, position)
        if number and position == self._positions[number]:
            # what is empty at the very start of a corpus begins behind the cut, so the corpus before it decides
            return self._documents[number]
        member = self._members[number]
        return member.document + _ended(member.corpus, position - member.position)

    def end_around(self, position: int) -> int:
        member = self._members[self._member(self._positions, position)]
        local = position - member.position
        if member.corpus.num_documents is None:
            return member.position + _next_shard(member.corpus, local)
        return member.position + member.corpus.documents.bounds(member.corpus.documents.at(local))[1]

    def documents(self, first: int, last: int) -> Iterator[Columns]:
        number = self._member(self._documents, first)
        while first < last:
            member = self._members[number]
            following = self._members[number + 1].document if number + 1 < len(self._members) else self.num_documents
            stop = min(last, following)
            for ends, records, sources in _columns(member.corpus, first - member.document, stop - member.document):
                moved = np.where(sources == UNKNOWN, UNKNOWN, sources + member.source)
                yield ends + member.position, records, moved.astype(np.int32)
            first, number = stop, number + 1


def _shard_ends(corpus: Corpus) -> Int64:
    return np.cumsum([shard.num_tokens for shard in corpus.shards], dtype=np.int64)


def _next_shard(corpus: Corpus, position: int) -> int:
    ends = _shard_ends(corpus)
    return int(ends[np.searchsorted(ends, position, "right")])


def _ended(corpus: Corpus, position: int) -> int:
    if corpus.num_documents is None:
        return int(np.searchsorted(_shard_ends(corpus), position, "right"))
    return corpus.documents.ended(position)


def _columns(corpus: Corpus, first: int, last: int) -> Iterator[Columns]:
    if corpus.num_documents is None:
        yield _unknown(_shard_ends(corpus)[first:last])
        return
    known = len(corpus.manifest.sources) if corpus.manifest is not None else 0
    document = first
    for begin, ends, origins in corpus.documents.between(first, last):
        for at in range(0, len(ends), BLOCK_IDS):
            block = ends[at : at + BLOCK_IDS] + begin
            if origins is None or not known:
                yield _unknown(block)
            else:
                records, sources = origins[0][at : at + BLOCK_IDS], origins[1][at : at + BLOCK_IDS]
                _check_sources(corpus, document, sources, known)
                yield block, records, sources
            document += len(block)


def _unknown(ends: Int64) -> Columns:
    return ends, np.zeros(len(ends), np.int64), np.full(len(ends), UNKNOWN, np.int32)


def _check_sources(corpus: Corpus, document: int, sources: Int32, known: int) -> None:
    strange = (sources < UNKNOWN) | (sources >= known)
    if strange.any():
        at = int(np.argmax(strange))
        raise FormatError(
            f"{corpus.path}: source of document {document + at}: got {int(sources[at])}, expected one of the {known} "
            "of the manifest; run verify, and build the corpus anew"
        )
