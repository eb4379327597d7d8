"""A filter of the user's own, by the dotted name of a function, or of a module with a function `keep`.

It is given a batch of texts and says which stay. Its answer is checked, since one that is silently read as another
(numbers as booleans, a single value for all) would drop documents that nobody meant.
"""

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from tokenriver.errors import InputError
from tokenriver.filterrules import FilterRule, Parameters
from tokenriver.types import Bools

FUNCTION = "keep"
_CURE = "mend the filter and run the same command again"


def own_rule(name: str, parameters: Parameters) -> FilterRule:
    """The rule of a filter by its dotted name; InputError for one that cannot be found, or not called like this."""
    function = _find(name)[0]
    try:
        inspect.signature(function).bind([], **parameters)
    except TypeError as error:
        got = ", ".join(parameters) or "no parameters"
        raise InputError(f"filter {name}: got {got}, expected those of its function: {error}; change them") from error
    except ValueError:
        pass  # a function of native code may not say what it takes
    return FilterRule(name, keep_texts=partial(_ask, name, function, parameters))


def own_version(name: str) -> str | None:
    """What the function, else its module, has as `__version__`; None if neither has one."""
    function, module = _find(name)
    version = getattr(function, "__version__", getattr(module, "__version__", None))
    if version is not None and not isinstance(version, str):
        raise InputError(f"filter {name}: got {version!r} as its __version__, expected a text; change it")
    return version


def _find(name: str) -> tuple[Callable[..., Any], ModuleType]:
    """The function of that name and the module that it was named by."""
    parent, _, last = name.rpartition(".")
    if not all(word.isidentifier() for word in name.split(".")):
        raise InputError(f"filter {name}: got no dotted name, expected one as in my_package.my_filter; change it")
    module = _import(name, parent)
    found = getattr(module, last, None)
    if found is None:
        found = _import(name, name)
    if isinstance(found, ModuleType):
        module, found = found, getattr(found, FUNCTION, None)
    if not callable(found):
        got = type(found).__name__ if found is not None else f"a module without {FUNCTION}"
        raise InputError(
            f"filter {name}: got {got}, expected a function, or a module with a function {FUNCTION}; change the name"
        )
    return found, module


def _import(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise InputError(
            f"filter {name}: cannot import: {type(error).__name__}: {error}; check the name and the search path "
            f"(PYTHONPATH)"
        ) from error


def _ask(name: str, function: Callable[..., Any], parameters: Parameters, texts: list[bytes]) -> Bools:
    """(k,) bool: which of k texts stay; InputError for anything else that the function does."""
    try:
        answer = np.asarray(function(list(texts), **parameters))
    except Exception as error:
        raise InputError(
            f"filter {name}: got {type(error).__name__}: {error}, expected an answer for {len(texts)} texts; {_CURE}"
        ) from error
    if answer.dtype != np.bool_ or answer.shape != (len(texts),):
        raise InputError(
            f"filter {name}: got an array of {answer.dtype}, shape {answer.shape}, expected bool, shape "
            f"({len(texts)},), True for each text that stays; {_CURE}"
        )
    return answer
