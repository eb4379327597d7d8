"""Training of a byte-level BPE by Hugging Face's own trainer, split and spelled as GPT-2's.

The trainer counts words while texts stream by, so memory grows with the number of different words, not with the text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from tokenriver.tokenizers import _text

PART_BYTES = 1 << 20
_WORD_ENDS = re.compile(rb"[A-Za-z](?= [A-Za-z])")
"""Behind an ASCII letter, before a space and another: there GPT-2's pattern ends one word and begins the next, whatever
lies around. So a text that is cut there has the words that it had."""


def train(batches: Iterable[Sequence[bytes]], vocab_size: int, special: Sequence[str]) -> tuple[bytes, int]:
    """The tokenizer.json of a vocabulary of at most vocab_size ids, and how many it has: special tokens first, then the
    256 bytes, then merges. Texts are valid UTF-8; what spells a special token is text."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library.train_from_iterator((list(_parts(batch)) for batch in batches), trainer)
    return str(library.to_str(pretty=True)).encode(), int(library.get_vocab_size())


def _parts(texts: Sequence[bytes]) -> Iterator[str]:
    """Texts of about PART_BYTES and less: the trainer keeps the place of every character of a text in mind."""
    for text in texts:
        start = 0
        while len(text) - start > PART_BYTES:
            found = _WORD_ENDS.search(text, start + PART_BYTES)
            if found is None:
                break
            yield _text.as_text(text[start : found.end()])
            start = found.end()
        yield _text.as_text(text[start:])
