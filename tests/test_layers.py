"""The house rules, read from the syntax trees: who may import whom, how long things are, who prints."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tokenriver"
FILES = sorted(SOURCE.rglob("*.py"))

# a room imports only from rooms in lines above its own; a folder is one room
LADDER = (
    ("errors",),
    ("_compiled", "types", "registry", "files", "defaults", "recent", "steps", "utf8", "garbage"),
    ("ranges", "compiled"),
    (
        "lanes",
        "extents",
        "digests",
        "ahead",
        "hashing",
        "splitmix",
        "messages",
        "filterrules",
        "lossmask",
        "mersenne",
        "answers",
    ),
    ("storage", "choicedata", "forms", "pointwise", "mapped"),
    ("streams", "magic", "rules", "locks", "journal", "ownfilter", "wire", "recipes", "rowblocks"),
    ("sources", "tokenizers", "formats", "packing", "orders", "filters", "templates", "remotes"),
    ("sampler", "quotas", "joining", "masks", "chat", "partfile", "recipe", "examples"),
    ("arithmetic",),
    ("manifest_tables", "arrivals", "finishing", "room"),
    ("downloading",),
    ("manifest", "kinds", "tokenizer", "filtering", "roles"),
    ("shelf", "foreign", "course", "mixing", "replaying", "buckets"),
    ("runlog", "rounds"),
    ("inputs", "river", "sequences"),
    ("filling",),
    ("units", "documents", "reading", "records", "limits", "weights"),
    ("choiceplan", "choiceturns"),
    ("choicecolumns",),
    ("choiceloader",),
    ("choicescores",),
    ("parts", "contents"),
    ("corpus",),
    ("assembly", "engines", "textdigests"),
    ("buildplan", "partflow", "balance", "duplicates"),
    ("shards",),
    ("buildfolder", "badrows", "outfolder"),
    ("feeding", "characters", "comparing", "training"),
    ("flows", "crew", "early"),
    ("transfer",),
    ("spool",),
    ("agreement", "reformat", "hashes"),
    ("commit",),
    ("tally", "packed", "examplefile"),
    ("conversing", "rlprompts", "paircorpus", "prompts", "choices"),
    ("build", "batch", "against", "convert", "leaks", "trace", "lookup", "pairing", "pairloader", "promptloader"),
    ("layout", "ledger", "lengths", "vocabulary", "sampling", "legs", "segments", "getting"),
    ("bucketrun",),
    ("rowcounts", "estimate", "schedule", "fertility"),
    ("loader", "verify", "stats", "plan", "sft"),
    ("validation",),
    ("adapters",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
FLOORS = {room: floor for floor, rooms in enumerate(LADDER) for room in rooms}
# folders whose files never import a neighbour, but for `_helper` files; nobody imports them but through registry.load
LEAVES = {"sources", "tokenizers", "formats", "packing", "orders", "filters"}
LEAVES |= {"templates", "examples", "remotes", "adapters"}
ROOMS = {"engines", "commands"}
# the native corpus is written by name, not by anyone's choice: its shard is the llm.c file
BY_NAME = {("shards.py", "formats"), ("transfer.py", "formats"), ("spool.py", "formats")}
# functions with as many keyword parameters as their users need
PUBLIC_ENTRY_POINTS = {
    ("build.py", "build"),
    ("loader.py", "__init__"),
    ("corpus.py", "open_corpus"),
    ("convert.py", "convert"),
    ("packing/best_fit.py", "pack"),
    ("packing/bos_aligned.py", "pack"),
    ("packing/document.py", "pack"),
    ("plan.py", "plan"),
    ("stats.py", "stats"),
    ("estimate.py", "estimate"),
    ("validation.py", "validation"),
    ("choices.py", "build_choices"),
    ("characters.py", "write_characters"),
    ("training.py", "train_tokenizer"),
    ("getting.py", "get"),
    ("rlprompts.py", "rl_prompts"),
    ("pairing.py", "preference"),
    ("pairloader.py", "__init__"),
    ("promptloader.py", "__init__"),
    ("sft.py", "sft"),
}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _room(path: Path) -> str:
    return _name(path).partition("/")[0].removesuffix(".py")


def _imports(tree: ast.AST) -> Iterator[str]:
    """Every imported module, absolute; `from tokenriver.x import y` as tokenriver.x.y."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (n for n in ast.walk(_tree(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def _own_rooms(path: Path) -> Iterator[tuple[str, str]]:
    """(room, module below the room or "") of each import from this package."""
    for name in _imports(_tree(path)):
        words = name.split(".")
        if words[0] == "tokenriver":
            room = words[1] if len(words) > 1 else ""
            yield room, words[2] if len(words) > 2 else ""


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_imports_point_down(path: Path) -> None:
    if _name(path) == "__init__.py":
        # below TYPE_CHECKING the package's door names the homes of its names for type checkers alone
        tops = ast.Module([n for n in _tree(path).body if not isinstance(n, ast.If)], [])
        assert {name.split(".")[1] for name in _imports(tops) if name.startswith("tokenriver")} == {"errors"}
        return
    here = _room(path)
    assert here in FLOORS, f"{_name(path)} has no floor: give it one in this test"
    for room, module in _own_rooms(path):
        if room not in FLOORS:
            assert FLOORS[here] >= FLOORS["commands"], f"{_name(path)} imports tokenriver's {room or 'public names'}"
        elif room == here:
            assert here in ROOMS or (here in LEAVES and module.startswith("_")), f"{_name(path)} imports a neighbour"
        else:
            assert FLOORS[room] < FLOORS[here], f"{_name(path)} imports {room}, which is not below it"
            by_name = room in LEAVES and (_name(path), room) not in BY_NAME
            assert not by_name, f"{_name(path)} imports {room}.{module}: leaves are reached through registry.load"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_import_inside_a_function(path: Path) -> None:
    for function in _functions(path):
        inside = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not inside, f"{_name(path)}: {function.name} imports inside"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_sizes(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= 300, f"{_name(path)} has {lines} lines"
    for function in _functions(path):
        length = (function.end_lineno or 0) - function.lineno + 1
        public = (_name(path), function.name) in PUBLIC_ENTRY_POINTS or (
            _room(path) == "commands" and function.name == "run"
        )
        assert length <= 40 or public, f"{_name(path)}: {function.name} has {length} lines"
        given = function.args
        count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
        count -= bool(given.args and given.args[0].arg in ("self", "cls"))
        assert count <= 6 or public, f"{_name(path)}: {function.name} has {count} parameters"


@cache
def _classes() -> frozenset[str]:
    return frozenset(node.name for file in FILES for node in ast.walk(_tree(file)) if isinstance(node, ast.ClassDef))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_inheritance_but_of_errors(path: Path) -> None:
    protocols = {"Protocol", "Source", "NamedTuple"}
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ClassDef) and _name(path) != "errors.py":
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            assert not (bases & _classes()) - protocols, f"{_name(path)}: {node.name} inherits from {bases}"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_who_may_do_what(path: Path) -> None:
    name, names = _name(path), set(_imports(_tree(path)))
    tops = {imported.partition(".")[0] for imported in names}
    assert "torch" not in tops or name == "adapters/torch.py"
    assert "gigatoken" not in tops or name == "tokenizers/_fast.py"
    assert tops.isdisjoint({"pickle", "dill", "marshal", "shelve"})
    assert tops.isdisjoint({"random", "datetime"})
    network = {"fsspec", "aiohttp", "huggingface_hub", "urllib3", "urllib", "socket", "ssl", "http", "requests"}
    assert tops.isdisjoint(network) or _room(path) == "remotes"
    assert "time" not in tops or _room(path) == "commands", f"{name} reads the clock"
    assert tops.isdisjoint({"typer", "rich"}) or _room(path) in ("commands", "cli")
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "input"), f"{name} calls {node.func.id}"
            assert node.func.id != "print" or _room(path) in ("commands", "cli"), f"{name} prints"
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "putenv", "environb"):
            assert name == "commands/_environment.py", f"{name} reads the environment"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_silenced_checker(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for mark in ("type: ignore", "# noqa", "pragma: no cover", "TO" + "DO", "FIX" + "ME"):
        assert mark not in text, f"{_name(path)} has {mark!r}"


def test_the_tree_knows_no_place_outside_itself() -> None:
    root = SOURCE.parent.parent
    kept = [
        p
        for folder in ("src", "tests", "scripts", "docs", "benchmarks", "examples")
        for p in (root / folder).rglob("*")
    ]
    texts = [
        p for p in kept if p.suffix in (".py", ".md", ".toml", "") and p.is_file() and "__pycache__" not in p.parts
    ]
    for path in [*texts, root / "README.md", root / "Makefile", root / "pyproject.toml"]:
        text = path.read_text(encoding="utf-8")
        for place in ("/wo" + "rk/", "/tm" + "p/w", "index" + "-url"):
            assert place not in text, f"{path} names {place}"
