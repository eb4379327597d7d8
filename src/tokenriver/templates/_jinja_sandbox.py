"""Where the templates of strangers run: nothing of the machine in reach, work and memory bounded by a meter.

Every step that a template can repeat and every text or list that it makes is charged, before it is made where one step
can make much; filters and methods that nobody needs in a chat template are not there at all.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tokenriver.templates import _marked
from tokenriver.templates._jinja_work import STEP, Work

# filters of the rewritten template, of names that no template can spell
TICK, WEIGH, COUNT, CONCATENATE = " tick", " weigh", " count", " concatenate"
_LARGEST = 1 << 64
_TAGS = {"generation"}

_FILTERS = """
abs capitalize count d default dictsort first float groupby int items last length list lower map max min reject
rejectattr reverse select selectattr sort string title trim unique upper wordcount
"""
_TESTS = "in eq equalto == ne != gt greaterthan > ge >= lt lessthan < le <= lower upper"
_TEXT = """
strip lstrip rstrip split rsplit splitlines startswith endswith lower upper title capitalize find rfind index count
replace join isdigit isalpha isalnum isnumeric isspace islower isupper removeprefix removesuffix
"""
_METHODS: tuple[tuple[tuple[type, ...], frozenset[str]], ...] = (
    ((str,), frozenset(_TEXT.split())),
    ((dict,), frozenset({"get", "items", "keys", "values"})),
    ((list, tuple), frozenset({"index", "count"})),
    ((int, float), frozenset()),
)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one template."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        self.work = work = Work()
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=work.shown,
            extensions=["jinja2.ext.loopcontrols", GenerationBlock],
        )
        ours: dict[str, Callable[..., Any]] = {
            "join": work.join,
            "replace": work.replace,
            "tojson": work.tojson,
            "safe": work.shown,
            "indent": work.indent,
            "sum": work.sum,
            TICK: work.tick,
            WEIGH: work.weigh,
            COUNT: work.count,
            CONCATENATE: work.concatenated,
        }
        self.filters = {name: work.charged(self.filters[name]) for name in _FILTERS.split()} | ours
        tests: dict[str, Any] = self.tests
        self.tests = tests | {name: work.charged(tests[name]) for name in _TESTS.split()}
        self.globals = {name: self.globals[name] for name in ("range", "namespace", "joiner")}
        self.globals["raise_exception"] = _raise
        vars(self)["concat"] = work.joined

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        for kinds, names in _METHODS:
            if isinstance(obj, kinds):
                return attr in names
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: object) -> None:
        """`format` is one of the methods that are not there: a width in it makes any amount of text."""

    def call(__self, __context: Context, __obj: object, *args: object, **kwargs: object) -> object:
        name, owner = getattr(__obj, "__name__", ""), getattr(__obj, "__self__", None)
        if isinstance(owner, str) and name in ("replace", "join"):
            ours = __self.work.replace if name == "replace" else _behind(__self.work.join)
            __obj, args = ours, (owner, *args)
        elif name not in ("startswith", "endswith"):
            __self.work.count(owner)
        value: object = super().call(__context, __obj, *args, **kwargs)
        __self.work.count(value)
        return value

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            self.work.charge(STEP + len(left) + len(right))
            return left + right
        if operator == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
            self.work.charge(STEP + len(left) + len(right))
        elif operator == "*" and isinstance(left, str) and isinstance(right, int):
            self.work.charge(STEP + len(left) * max(0, right))
        elif not isinstance(left, int | float) or not isinstance(right, int | float):
            raise SecurityError(f"{type(left).__name__} {operator} {type(right).__name__} is not done here")
        elif operator == "**" and (abs(right) > 64 or abs(left) > _LARGEST):
            raise SecurityError("a power that is too large")
        value: object = super().call_binop(context, operator, left, right)
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise SecurityError(f"a number of {value.bit_length()} bits")
        return value


class GenerationBlock(Extension):
    """{% generation %} ... {% endgeneration %}: what the model is to say."""

    tags = _TAGS

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller: Macro) -> str:
        return _marked.in_block(caller())


def _behind(join: Callable[..., str]) -> Callable[..., str]:
    """The filter `join`, with the text between the parts first, as in the method."""
    return lambda between, parts: join(parts, between)


def _raise(message: str) -> NoReturn:
    raise TemplateError(str(message)[:300])
