"""Names that a peer imports for clouds, models and commands and never uses for its files: they are not installed."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence


class _Kind(type):
    """The class of classes that have every attribute, itself such a class, and take every call."""

    def __getattr__(cls, name: str) -> type:
        return _nothing(name)


def _nothing(name: str) -> type:
    """A name's meaning: enough to be inherited from, annotated with, called, caught."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _Kind(name, (Exception,), {"__init__": lambda *a, **b: None, "__getattr__": lambda _, more: _nothing(more)})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if any(name == known or name.startswith(f"{known}.") for known in self._names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__dict__["__getattr__"] = _nothing
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def stand_in(*names: str) -> None:
    """Let these modules, and all below them, be imported as if they were there."""
    sys.meta_path.insert(0, _Finder(names))
