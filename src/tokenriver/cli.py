"""The command line: finds commands/*, loads the one that was asked for, and turns failures into exit codes.

A command is a file of commands/ with a function `run`, or with ACTIONS, such functions by name. Its line in
`tokenriver --help` is the first line of the file, read without importing it: so help comes at once, and a command pays
only for its own imports.
Exit codes: 0 done, 1 failed or findings, 2 usage, 130 stopped by the user.
"""

import ast
import gc
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

import tokenriver
from tokenriver import registry
from tokenriver.commands import _environment
from tokenriver.errors import RiverError

if TYPE_CHECKING:
    from tokenriver.engines.nursery import Nursery

ORDER = [
    "build",
    "get",
    "sft",
    "info",
    "stats",
    "plan",
    "verify",
    "convert",
    "pack",
    "batches",
    "trace",
    "when",
    "ledger",
    "leak",
    "tokenizer",
    "preference",
    "rl",
    "choice",
    "demo",
    "bench",
]


def main(arguments: Sequence[str] | None = None, *, workers: "Nursery | None" = None) -> None:
    """Run the command line (`arguments` are the words after the program's name), for a build with workers that are
    starting already; leaves by SystemExit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # the process is ours
        _environment.one_thread()
        _environment.large_pages()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # any text of a corpus can be shown on any terminal
    with warnings.catch_warnings(), _plain_failures("--traceback" in given):
        warnings.simplefilter("default")
        warnings.showwarning = _show_warning
        try:
            _app(given)(given, prog_name="tokenriver", obj=workers)
        finally:
            if arguments is None:
                gc.freeze()  # else the interpreter looks through everything once more before it ends


def _app(given: Sequence[str]) -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_program)
    asked = next((word for word in given if not word.startswith("-")), "")
    for name in _commands():
        if name == asked:
            _add(app, name, registry.load("commands", name), "--traceback" in given)
        else:
            shown = given[:1] != [asked]  # else its help is nowhere to be seen
            app.command(name, help=_headline(name) if shown else "")(_not_asked)
    return app


def _add(app: typer.Typer, name: str, module: ModuleType, show_code: bool) -> None:
    if not hasattr(module, "ACTIONS"):
        app.command(name)(_plain_failures(show_code)(module.run))
        return
    actions = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=module.__doc__)
    for action, run in module.ACTIONS.items():
        actions.command(action)(_plain_failures(show_code)(run))
    app.add_typer(actions, name=name)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tokenriver {tokenriver.__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where in the code a failure came from.")] = False,
) -> None:
    """Text in, training batches out: exact, fast, resumable, in every trainer's format."""


def _not_asked() -> None:
    """Stands for a command that this run does not need."""


def _commands() -> list[str]:
    found = registry.names("commands")
    return [name for name in ORDER if name in found] + [name for name in found if name not in ORDER]


def _headline(name: str) -> str:
    """The first line of a command's file, without importing it."""
    spec = importlib.util.find_spec(f"tokenriver.commands.{name.replace('-', '_')}")
    if spec is None or spec.origin is None:
        return ""
    tree = ast.parse(Path(spec.origin).read_bytes())
    return (ast.get_docstring(tree) or "").partition("\n")[0]


@contextmanager
def _plain_failures(show_code: bool) -> Iterator[None]:
    """Around a command: every failure becomes one line on standard error and an exit code, never a traceback."""
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        # the reader went away (`| head`): nothing more can be said there, not even when Python flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _complain("stopped", "the same command goes on where this one was; a finished build stays as it is")
        sys.exit(130)
    except RiverError as error:
        _complain("error", str(error), show_code)
        sys.exit(1)
    except OSError as error:
        _complain("error", f"{error.filename or 'system'}: {error.strerror or error}", show_code)
        sys.exit(1)
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _complain("error", f"unexpected {text}; run `tokenriver --traceback ...` to see where", show_code)
        sys.exit(1)


def _complain(kind: str, text: str, show_code: bool = False) -> None:
    if show_code:
        traceback.print_exc()
    color = typer.colors.YELLOW if kind == "warning" else typer.colors.RED
    typer.echo(typer.style(f"{kind}: ", fg=color, bold=True) + text, err=True)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    _complain("warning", str(message))
