"""What several corpora that are to become one must agree on, and what follows for the whole."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tokenriver import transfer
from tokenriver.corpus import Corpus
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.flows import Joined
from tokenriver.manifest import SourceInfo, TokenizerInfo, tokenizer_info
from tokenriver.roles import role_ids
from tokenriver.rounds import rows_per_sample
from tokenriver.storage import Format


@dataclass(frozen=True, slots=True)
class Agreement:
    """The corpora of each split in order, and what is true of all of them."""

    splits: Mapping[str, Sequence[Corpus]]
    tokenizer: TokenizerInfo | None
    """None if one of them does not say what made its ids."""
    framing: str
    """ "" if they differ, or one does not say."""
    sources: tuple[SourceInfo, ...]
    """The inputs of all, in the order in which a flow of them numbers them."""
    rivers: Mapping[str, str]
    """Fingerprints; a river that was joined to nothing is the river it was."""
    notes: tuple[str, ...]
    """What the files do not say, in words."""

    @property
    def corpora(self) -> list[Corpus]:
        return [corpus for corpora in self.splits.values() for corpus in corpora]

    @property
    def num_tokens(self) -> int:
        return sum(corpus.num_tokens for corpus in self.corpora)

    def largest(self) -> int:
        """The largest id there can be: by the vocabulary, or by reading all ids of corpora that do not say theirs."""
        if self.tokenizer is not None:
            return self.tokenizer.vocab_size - 1
        return max(transfer.largest_id(Joined([corpus])) for corpus in self.corpora)


def agree(first: Sequence[Corpus], opened: Callable[[Corpus, str], Corpus]) -> Agreement:
    """Of corpora in the order given, each open at one of its splits; `opened` opens another split of one."""
    splits: dict[str, list[Corpus]] = {}
    for corpus in first:
        for split in corpus.splits:
            splits.setdefault(split, []).append(corpus if split == corpus.split else opened(corpus, split))
    corpora = [corpus for members in splits.values() for corpus in members]
    for corpus in corpora:
        if corpus.manifest is not None and (rows := rows_per_sample(corpus.manifest.options)) != 1:
            raise InputError(
                f"{corpus.path}: got samples of {rows} documents, expected single ones: "
                "another corpus would not say which belong together; make it anew from its inputs"
            )
    framings = {corpus.manifest.framing if corpus.manifest is not None else "" for corpus in corpora}
    return Agreement(
        splits=dict(sorted(splits.items())),
        tokenizer=one_tokenizer(corpora),
        framing=framings.pop() if len(framings) == 1 else "",
        sources=_sources(splits),
        rivers={split: _river(members) for split, members in sorted(splits.items())},
        notes=tuple(dict.fromkeys(note for corpus in corpora for note in corpus.assumptions)),
    )


def choose_dtype(agreed: Agreement, module: Format, name: str, asked: str | None) -> str:
    """The dtype asked for; else the corpora's own, if the format has it; else the first of the format's that holds
    every id. LimitError if there is none."""
    allowed = module.DTYPES
    stored = {corpus.dtype.name for corpus in agreed.corpora}
    if asked is None and len(stored) == 1 and stored <= set(allowed):
        return stored.pop()
    if asked is not None and asked not in allowed:
        raise LimitError(f"dtype: got {asked}, expected one of {', '.join(allowed)} in {name}")
    wanted = allowed if asked is None else (asked,)
    if any(transfer.largest_in(dtype) < max(map(transfer.largest_in, stored)) for dtype in wanted):
        largest = agreed.largest()
        wanted = tuple(dtype for dtype in wanted if largest <= transfer.largest_in(dtype))
    if not wanted:
        most = max(map(transfer.largest_in, allowed)) if asked is None else transfer.largest_in(asked)
        cure = "another format" if asked is None else "a wider dtype"
        raise LimitError(f"id: got {largest}, expected at most {most}, what {asked or name} holds; choose {cure}")
    return wanted[0]


def one_tokenizer(corpora: list[Corpus]) -> TokenizerInfo | None:
    """What made the ids of all corpora; MismatchError if it is not the same. None if one does not know."""
    found = [tokenizer_of(corpus) for corpus in corpora]
    known = {(info.fingerprint, *role_ids(info).values()): info for info in found if info is not None}
    if len(known) > 1:
        first, other = list(known.values())[:2]
        if first.fingerprint == other.fingerprint:
            raise MismatchError(
                f"tokenizer: got {role_ids(first)} and {role_ids(other)} of {first.name} in the sources, "
                "expected one choice: their documents are framed by other ids"
            )
        raise MismatchError(
            f"tokenizer: got {first.name} and {other.name} in the sources, expected one: their ids mean different texts"
        )
    return None if None in found else next(iter(known.values()))


def tokenizer_of(corpus: Corpus) -> TokenizerInfo | None:
    """What made the ids of a corpus, by its manifest or by the word of who opened it."""
    if corpus.manifest is not None:
        return corpus.manifest.tokenizer
    tokenizer = corpus.given_tokenizer
    return None if tokenizer is None else tokenizer_info(tokenizer)


def _sources(splits: Mapping[str, Sequence[Corpus]]) -> tuple[SourceInfo, ...]:
    """The same list for every split: the number of an input must mean one thing."""
    lists = [
        [source for corpus in corpora for source in (corpus.manifest.sources if corpus.manifest else ())]
        for corpora in splits.values()
    ]
    longest = max(lists, key=len)
    if any(found != longest[: len(found)] for found in lists):
        raise MismatchError(
            "sources: got splits with other inputs, expected the same corpora for each; convert one by one"
        )
    return tuple(longest)


def _river(corpora: Sequence[Corpus]) -> str:
    if len(corpora) == 1:
        return corpora[0].fingerprint
    names = [corpus.fingerprint for corpus in corpora]
    digest = hashlib.sha256(b"tokenriver join 1\n" + "\n".join(names).encode()).hexdigest()
    return f"sampled:{digest}" if any(name.startswith("sampled:") for name in names) else digest
