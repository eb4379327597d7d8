"""tokenriver: text in, training batches out.

Importing it does nothing and loads nothing: a public name is looked up when it is first used, so that
`tokenriver --help` needs no numpy and `import tokenriver` costs next to nothing.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from tokenriver.errors import (
    FormatError,
    InputError,
    LimitError,
    MismatchError,
    MissingPackageError,
    RiverError,
)

if TYPE_CHECKING:
    from tokenriver.answers import extract_number, gold_answer, reward
    from tokenriver.arithmetic import Level
    from tokenriver.batch import Batch
    from tokenriver.build import BuildReport, build
    from tokenriver.characters import CharactersReport, write_characters
    from tokenriver.chat import Chat, load_chat
    from tokenriver.choicedata import ChoiceExamples
    from tokenriver.choiceloader import EvalBatch, EvalLoader
    from tokenriver.choices import ChoiceReport, build_choices, open_choices, write_choices
    from tokenriver.choicescores import ChoiceScores, choice_accuracy
    from tokenriver.convert import ConvertReport, convert
    from tokenriver.corpus import Corpus, open_corpus
    from tokenriver.estimate import TextEstimate, estimate
    from tokenriver.examplefile import ExampleReport
    from tokenriver.leaks import Leaks, leaks
    from tokenriver.loader import Loader
    from tokenriver.messages import Message
    from tokenriver.mixing import Mixture
    from tokenriver.pairing import preference
    from tokenriver.pairloader import PairBatch, PairLoader
    from tokenriver.plan import Plan, plan
    from tokenriver.promptloader import PromptBatch, PromptLoader
    from tokenriver.rlprompts import rl_prompts
    from tokenriver.sft import SftReport, sft
    from tokenriver.stats import Stats, stats
    from tokenriver.tokenizer import StreamDecoder, load_tokenizer, stream_decoder
    from tokenriver.trace import Origin
    from tokenriver.training import TrainingReport, train_tokenizer
    from tokenriver.types import IGNORE
    from tokenriver.validation import validation
    from tokenriver.verify import Finding, verify

__all__ = [
    "IGNORE",
    "Batch",
    "BuildReport",
    "CharactersReport",
    "Chat",
    "ChoiceExamples",
    "ChoiceReport",
    "ChoiceScores",
    "ConvertReport",
    "Corpus",
    "EvalBatch",
    "EvalLoader",
    "ExampleReport",
    "Finding",
    "FormatError",
    "InputError",
    "Leaks",
    "Level",
    "LimitError",
    "Loader",
    "Message",
    "MismatchError",
    "MissingPackageError",
    "Mixture",
    "Origin",
    "PairBatch",
    "PairLoader",
    "Plan",
    "PromptBatch",
    "PromptLoader",
    "RiverError",
    "SftReport",
    "Stats",
    "StreamDecoder",
    "TextEstimate",
    "TrainingReport",
    "build",
    "build_choices",
    "choice_accuracy",
    "convert",
    "estimate",
    "extract_number",
    "gold_answer",
    "leaks",
    "load_chat",
    "load_tokenizer",
    "open_choices",
    "open_corpus",
    "plan",
    "preference",
    "reward",
    "rl_prompts",
    "sft",
    "stats",
    "stream_decoder",
    "train_tokenizer",
    "validation",
    "verify",
    "write_characters",
    "write_choices",
]

__version__ = "0.1.0"

_HOMES = {
    "IGNORE": "types",
    "Batch": "batch",
    "BuildReport": "build",
    "CharactersReport": "characters",
    "Chat": "chat",
    "ChoiceExamples": "choicedata",
    "ChoiceReport": "choices",
    "ChoiceScores": "choicescores",
    "ConvertReport": "convert",
    "Corpus": "corpus",
    "EvalBatch": "choiceloader",
    "EvalLoader": "choiceloader",
    "ExampleReport": "examplefile",
    "Finding": "verify",
    "Leaks": "leaks",
    "Level": "arithmetic",
    "Loader": "loader",
    "Message": "messages",
    "Mixture": "mixing",
    "Origin": "trace",
    "PairBatch": "pairloader",
    "PairLoader": "pairloader",
    "Plan": "plan",
    "PromptBatch": "promptloader",
    "PromptLoader": "promptloader",
    "SftReport": "sft",
    "Stats": "stats",
    "StreamDecoder": "tokenizer",
    "TextEstimate": "estimate",
    "TrainingReport": "training",
    "build": "build",
    "build_choices": "choices",
    "choice_accuracy": "choicescores",
    "convert": "convert",
    "estimate": "estimate",
    "extract_number": "answers",
    "gold_answer": "answers",
    "leaks": "leaks",
    "load_chat": "chat",
    "load_tokenizer": "tokenizer",
    "open_choices": "choices",
    "open_corpus": "corpus",
    "plan": "plan",
    "preference": "pairing",
    "reward": "answers",
    "rl_prompts": "rlprompts",
    "sft": "sft",
    "stats": "stats",
    "stream_decoder": "tokenizer",
    "train_tokenizer": "training",
    "validation": "validation",
    "verify": "verify",
    "write_characters": "characters",
    "write_choices": "choices",
}


class _Package(ModuleType):
    """This package. Python sets a submodule on its package once it is imported, so the module `tokenriver.build` would
    take the place of the function `tokenriver.build`; here the public name wins."""

    def __getattr__(self, name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{self.__name__}.{_HOMES[name]}"), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *__all__})


sys.modules[__name__].__class__ = _Package
