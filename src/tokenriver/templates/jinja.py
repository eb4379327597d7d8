"""The chat template in a model's folder, or in a file: Jinja, run in a sandbox.

    load_chat("path/to/model/", tokenizer)        # chat_template.jinja, or chat_template of tokenizer_config.json

Ids equal those of the rendered text read with its special tokens, with two differences that are meant: a special token
that a message spells is text, and an assistant's turn is cut off from what opens it, as it is when a model answers.

What is trained is what stands in {% generation %} blocks. A template without them is rendered up to each turn of the
assistant, with what opens the turn, and up to its end: both must begin the whole, or the conversation is refused.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from jinja2 import Template, meta, nodes

from tokenriver.errors import InputError
from tokenriver.messages import Message, Piece
from tokenriver.templates import _jinja_files, _jinja_turns, _marked
from tokenriver.templates._jinja_conversation import SET, Conversation
from tokenriver.templates._jinja_rewrite import Rewriter
from tokenriver.templates._jinja_sandbox import Sandbox
from tokenriver.templates._jinja_turns import Specials, Stretch
from tokenriver.templates._marked import Marked
from tokenriver.types import Json

ROLES = None
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Program:
    """One template made ready to run."""

    sandbox: Sandbox
    template: Template
    names: frozenset[str]
    """What the template's text names: variables, fields."""
    reads: frozenset[str]
    """The variables that it reads and does not make."""
    blocks: bool
    """Has it generation blocks?"""

    def run(self, variables: Mapping[str, object], characters: int) -> Marked:
        """The rendered text; InputError for what the template refuses, and for one that does not end."""
        self.sandbox.work.start(characters)
        try:
            context = self.template.new_context(dict(variables))
            return self.sandbox.work.joined(self.template.root_render_func(context))
        except InputError:
            raise
        except Exception as error:  # a stranger's program: it may raise anything
            what = str(error)[:300] or type(error).__name__
            raise InputError(
                f"chat template: got {what!r}, expected a text; mend the record or the template"
            ) from error


@dataclass(frozen=True, slots=True)
class JinjaTemplate:
    """A template of a file with the special tokens of a tokenizer (see `messages.Template`)."""

    path: Path
    programs: Mapping[str, Program]
    variables: Mapping[str, object]
    specials: Specials
    reasoning: bool
    FINGERPRINT: str
    ROLES: None = None
    TRAINED: frozenset[str] = frozenset({"assistant"})

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Json], generate: bool, trained: Sequence[bool]
    ) -> list[Piece]:
        """The pieces of a conversation; InputError if the template refuses it or does not tell what is trained."""
        try:
            return self._pieces(messages, tools, generate, trained)
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from error

    def _pieces(
        self, messages: Sequence[Message], tools: Sequence[Json], generate: bool, trained: Sequence[bool]
    ) -> list[Piece]:
        for message, is_trained in zip(messages, trained, strict=True):
            if is_trained and message.role not in self.TRAINED:
                raise InputError(f"train: got a message of {message.role}, expected only those of the assistant here")
        name = "tool_use" if tools and "tool_use" in self.programs else "default"
        program = self.programs.get(name) or next(iter(self.programs.values()))
        talk = Conversation(messages, tools, program.names, self.variables)

        def run(count: int, opened: bool = False) -> Marked:
            return program.run(talk.variables(count, opened), talk.characters)

        whole = run(len(messages))
        parts = _marked.parts(whole)
        own = self.specials.own(whole, parts)
        self.specials.check(whole, parts, own, talk.everything)
        talk.check_all_shown(parts)
        if program.blocks:
            stretches = _jinja_turns.blocks(parts, own, messages)
        else:
            stretches = _turns(messages, whole, own, self.specials, run)
        if not self.reasoning:
            stretches = [cut for one in stretches for cut in _jinja_turns.without_reasoning(parts, one, own)]
        if not generate:
            return _jinja_turns.pieces(whole, own, stretches, len(whole))
        opened = run(len(messages), True)
        own_opened = self.specials.own(opened, _marked.parts(opened))
        cut = _grown(whole, own, opened, own_opened)
        if stretches and stretches[-1].end > cut:
            raise _rewrites(-1, "the next turn is opened")
        return _jinja_turns.pieces(opened, own_opened, stretches, cut)


def _grown(whole: Marked, own: Spans, opened: Marked, own_opened: Spans) -> int:
    """Where the opening of the next turn begins: behind the whole, but for a token that only ends a conversation."""
    if opened.startswith(whole):
        return len(whole)
    pairs = enumerate(zip(_marked.plain(whole), _marked.plain(opened), strict=False))
    cut = next((place for place, (a, b) in pairs if a != b), len(opened))
    cut = min([cut, *(start for start, end in own_opened if start < cut < end)])
    places = [(cut, cut), *(span for span in own if span[0] >= cut), (len(whole), len(whole))]
    if any(whole[a:b].strip() for (_, a), (b, _) in pairwise(places)):
        raise _rewrites(-1, "the next turn is opened")
    return cut


def _turns(
    messages: Sequence[Message], whole: Marked, own: Spans, specials: Specials, run: Callable[..., Marked]
) -> list[Stretch]:
    """The assistant's turns, each from behind what opens it to the last special token in it."""
    stretches = []
    for number, message in enumerate(messages):
        if message.role != "assistant":
            continue
        opened = run(number, True)
        if not whole.startswith(opened):
            raise _opened_otherwise(number, whole, run(number), opened)
        start = len(opened)
        ended = whole if number + 1 == len(messages) else run(number + 1)
        if not ended.startswith(opened):
            raise _rewrites(number, "the assistant has answered")
        spans = own if whole.startswith(ended) else specials.own(ended, _marked.parts(ended))
        inside = [(a, b) for a, b in spans if start <= a and b <= len(ended)]
        if not inside:
            raise InputError(
                f"chat template: got no special token at the end of message {number}, expected one: a model trained so "
                "would not stop; mend the template"
            )
        end = inside[-1][1]
        if not whole.startswith(ended[:end]):
            end = _end_of_rewritten(whole, number, start, (ended, inside), specials)
        stretches.append(Stretch(start, end, number))
    return stretches


def _end_of_rewritten(
    whole: Marked, number: int, start: int, last: tuple[Marked, list[tuple[int, int]]], specials: Specials
) -> int:
    """The end of a turn that the template writes otherwise once others follow, as by leaving out what was thought.

    It must have the special tokens that it has as the `last` turn, but for those that only end a conversation, and
    nothing that another message says."""
    ended, expected = last
    parts = _marked.parts(whole)
    inside = [(a, b) for a, b in specials.own(whole, parts) if a >= start]
    same = [whole[a:b] == ended[c:d] for (a, b), (c, d) in zip(inside, expected, strict=False)]
    count = (*same, False).index(False)
    if not count:
        raise _rewrites(number, "others follow")
    gaps = [ended[a:b] for (_, a), (b, _) in pairwise(expected[count - 1 :])]
    end = inside[count - 1][1]
    inner = [part for part in parts if start < part.end and part.start < end]
    others = {_marked.message_of(part.origin) for part in inner} - {-1, number}
    if others or any(gap.strip() for gap in gaps):
        raise _rewrites(number, "others follow")
    return end


def _opened_otherwise(number: int, whole: Marked, before: Marked, opened: Marked) -> InputError:
    """Why a turn does not begin with what opens it."""
    if not whole.startswith(before) or not opened.startswith(before):
        return _rewrites(number, "more follows")
    start = len(before)
    return InputError(
        f"chat template: got {_marked.plain(whole[start : start + 60])!r} where message {number} begins, expected what "
        f"opens a turn, {_marked.plain(opened[start:])[:60]!r}: a model would begin otherwise than it was trained; set "
        "the template's options, or use generation blocks"
    )


def _rewrites(number: int, when: str) -> InputError:
    return InputError(
        f"chat template: got other text {'at the end' if number < 0 else f'before message {number}'} once {when}, "
        "expected that a conversation only grows; use a template with generation blocks"
    )


def load(path: Path, special_ids: Mapping[str, int], variables: Mapping[str, object], reasoning: bool) -> JinjaTemplate:
    """The template at a path for a tokenizer with such special tokens; InputError for one that cannot be used."""
    sources = _jinja_files.sources(path)
    programs = {name: _program(f"{path}: chat template {name}", text) for name, text in sources.items()}
    _check_given(path, variables, {name for program in programs.values() for name in program.reads})
    given = {name: _marked.own(value) if isinstance(value, str) else value for name, value in variables.items()}
    if "strftime_now" in given:
        said = given["strftime_now"]
        given["strftime_now"] = lambda form: said
    known: dict[str, object] = {name: _marked.own(text) for name, text in _jinja_files.tokens(path).items()}
    content = [sources, {name: str(text) for name, text in known.items()}, dict(variables)]
    return JinjaTemplate(
        path,
        programs,
        known | given,
        Specials(special_ids, _jinja_files.greedy(path)),
        reasoning,
        hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode("utf-8", "replace")).hexdigest(),
    )


def _check_given(path: Path, given: Iterable[str], reads: set[str]) -> None:
    """InputError for a variable that the template does not read, or does not take from anyone."""
    for name in sorted(given):
        if name in reads - SET:
            continue
        what = "which each conversation sets by itself" if name in SET else "which the template does not read"
        known = ", ".join(sorted(reads - SET))
        raise InputError(
            f"{path}: template option: got {name!r}, {what}, expected {f'one of {known}' if known else 'none'}; leave "
            "it out or mend its name"
        )


def _program(name: str, source: str) -> Program:
    sandbox = Sandbox()
    try:
        tree = sandbox.parse(source)
        fields = {node.attr for node in tree.find_all(nodes.Getattr)}
        fields |= {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
        undeclared = meta.find_undeclared_variables(tree)
        blocks = any(
            isinstance(node.call, nodes.Call) and isinstance(node.call.node, nodes.ExtensionAttribute)
            for node in tree.find_all(nodes.CallBlock)
        )
        code = sandbox.compile(Rewriter(sandbox).visit(tree))
        template = Template.from_code(sandbox, code, sandbox.make_globals(None))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    except Exception as error:  # Jinja's compiler and Python's raise what they like for odd sources
        what = str(error)[:300] or type(error).__name__
        raise InputError(f"{name}: got {what!r}, expected Jinja; mend the template") from error
    return Program(
        sandbox, template, frozenset(undeclared | fields), frozenset(undeclared - set(sandbox.globals)), blocks
    )
