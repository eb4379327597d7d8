"""Make a tokenizer from your own text, see what one does, and check its fast encoder.

Every action has --help.

Example:  tokenriver tokenizer show "Hello world" --tokenizer gpt2
"""

from collections.abc import Callable, Mapping

from tokenriver.commands import _tokenizer_characters, _tokenizer_check, _tokenizer_show, _tokenizer_train

ACTIONS: Mapping[str, Callable[..., None]] = {
    "train": _tokenizer_train.run,
    "show": _tokenizer_show.run,
    "check": _tokenizer_check.run,
    "characters": _tokenizer_characters.run,
}
