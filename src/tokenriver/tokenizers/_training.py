"""Training of a byte-level BPE by Hugging Face's own trainer, split and spelled as GPT-2's.

The trainer counts words while texts stream by, so memory grows with the number of different words, not with the text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise
from operator import itemgetter

from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Library

from tokenriver.tokenizers import _text

PART_BYTES = 1 << 20
_WORD_ENDS = re.compile(rb"[A-Za-z](?= [A-Za-z])")
"""Behind an ASCII letter, before a space and another: there GPT-2's pattern ends one word and begins the next, whatever
lies around. So a text that is cut there has the words that it had."""
Splitter = Callable[[bytes], list[bytes]]
"""The words of a text, as GPT-2 splits it."""


def train(batches: Iterable[Sequence[bytes]], vocab_size: int, special: Sequence[str]) -> tuple[bytes, int]:
    """The tokenizer.json of a vocabulary of at most vocab_size ids, and how many it has: special tokens first, then the
    256 bytes, then merges. Texts are valid UTF-8; what spells a special token is text."""
    library = _around(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special),
        initial_alphabet=alphabet(),
        show_progress=False,
    )
    library.train_from_iterator((list(parts(batch, PART_BYTES)) for batch in batches), trainer)
    return dump(library), int(library.get_vocab_size())


def spell(merges: Sequence[tuple[bytes, bytes]], special: Sequence[str]) -> Library:
    """The library's tokenizer of merges that somebody else found, as its trainer would leave it."""
    letters = spelling()
    vocab = {token: number for number, token in enumerate([*special, *alphabet()])}
    spelled = [("".join(map(letters.__getitem__, a)), "".join(map(letters.__getitem__, b))) for a, b in merges]
    for left, right in spelled:
        vocab.setdefault(left + right, len(vocab))
    library = _around(models.BPE(vocab, spelled))
    library.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    library.encode_special_tokens = True
    return library


def dump(library: Library) -> bytes:
    """The tokenizer.json, as the library writes it."""
    return str(library.to_str(pretty=True)).encode()


def word_sizes(text: bytes) -> list[int]:
    """Bytes of each word of a text, as the library splits it."""
    return [len(word) for word, _ in _split().pre_tokenize_str(_text.as_text(text))]


def words(text: bytes) -> list[bytes]:
    """The words of a text, as the library splits it."""
    ends = accumulate(word_sizes(text), initial=0)
    return [text[start:stop] for start, stop in pairwise(ends)]


def alphabet() -> list[str]:
    """The letters that stand for the 256 bytes, in the order of their ids."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def spelling() -> dict[int, str]:
    """The letter of each byte: itself where it can be shown, the others from U+0100 up in the order of the bytes."""
    shown = {ord(letter) for letter in alphabet() if ord(letter) < 256}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)}


def spelled(library: Library) -> list[bytes]:
    """The bytes of each id."""
    byte = {letter: value for value, letter in spelling().items()}
    names = sorted(library.get_vocab().items(), key=itemgetter(1))
    return [bytes(map(byte.__getitem__, name)) if byte.keys() >= set(name) else name.encode() for name, _ in names]


@cache
def _split() -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _around(model: models.BPE) -> Library:
    library = Library(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


def parts(texts: Sequence[bytes], size: int) -> Iterator[str]:
    """Texts of about `size` bytes and less: the trainer keeps the place of every character of a text in mind."""
    for text in texts:
        start = 0
        while len(text) - start > size:
            found = _WORD_ENDS.search(text, start + size)
            if found is None:
                break
            yield _text.as_text(text[start : found.end()])
            start = found.end()
        yield _text.as_text(text[start:])
