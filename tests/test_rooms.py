"""The structure of the package: which room may import which and how large files are."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import mirrorbench

PACKAGE = Path(mirrorbench.__file__).parent
ROOMS = ("core", "data", "models", "training", "tasks", "runs", "reports", "texts", "session", "api", "cli",
         "plugin")  # fmt: skip
"""In the order in which they build on each other (``CONTRIBUTING.md``); ``session``, ``api``, ``plugin`` are modules.
"""
RUNS = ("cells", "results", "outcomes", "cache", "registry", "workspace", "ladder", "recipe", "vectors", "loading",
        "plan", "runner", "executors", "run")  # fmt: skip
"""The modules of ``runs``, in the order in which they are read."""
KNOWS_CORE_ONLY = ("data", "models")
LONGEST_FILE = 400
MOST = {"files": 115, "lines": 21_000, "lines of code": 14_000}
"""Of the package; a capability that comes names what leaves."""
SAME_NAME = {"run", "tune", "leaderboard"}
"""Functions of Python and of the command line, one beside the other."""

TREES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in TREES}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Modules of this package that a file imports, in functions and for annotations too."""
    if isinstance(tree, ast.ImportFrom) and tree.module and tree.module.split(".")[0] == "mirrorbench":
        for alias in tree.names:
            full = f"{tree.module}.{alias.name}"
            yield full if full in MODULES else tree.module, tree.lineno
    elif isinstance(tree, ast.Import):
        yield from ((a.name, tree.lineno) for a in tree.names if a.name.split(".")[0] == "mirrorbench")
    for child in ast.iter_child_nodes(tree):
        yield from imported(child)


IMPORTS = [(path, line, name) for path, tree in TREES.items() for name, line in imported(tree)]


def test_a_room_imports_only_from_those_below_it() -> None:
    forbidden = []
    for path, line, name in IMPORTS:
        here, there = room_of(module_of(path)), room_of(name)
        if here in ("", "__main__") or there in ("", here):
            continue
        lower = ROOMS.index(there) < ROOMS.index(here) and (there == "core" or here not in KNOWS_CORE_ONLY)
        if not lower:
            forbidden.append(f"{path.relative_to(PACKAGE)}:{line} imports {name}")
    assert forbidden == []


def test_a_module_of_runs_imports_only_those_before_it() -> None:
    assert {path.stem for path in (PACKAGE / "runs").glob("*.py")} == {"__init__", *RUNS}
    within = [(path.stem, name.split(".")[2]) for path, _, name in IMPORTS
              if path.parent.name == "runs" and name.startswith("mirrorbench.runs.")]  # fmt: skip
    assert [pair for pair in within if RUNS.index(pair[1]) >= RUNS.index(pair[0])] == []


def test_no_circle_of_modules() -> None:
    """Also within a room: a module can be read when those that it imports were read."""
    knows: dict[str, set[str]] = {module: set() for module in MODULES}
    for path, _, name in IMPORTS:
        knows[module_of(path)].add(name)
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join((*above[above.index(module) :], module))
        if module not in done:
            for other in sorted(knows[module] - {module}):
                visit(other, (*above, module))
            done.add(module)

    for module in sorted(MODULES):
        visit(module, ())


def test_every_module_stands_in_a_room() -> None:
    loose = {path.name for path in PACKAGE.glob("*.py")} - {
        "__init__.py",
        "__main__.py",
        "session.py",
        "api.py",
        "plugin.py",
    }
    assert loose == set()
    assert {room_of(m) for m in MODULES} <= {"", "__main__", *ROOMS}
    assert set(dict(pairwise(ROOMS))) | {ROOMS[-1]} == set(ROOMS)


def test_no_file_is_too_long_to_read() -> None:
    sizes = {str(path.relative_to(PACKAGE)): len(path.read_text("utf-8").splitlines()) for path in TREES}
    assert {name: size for name, size in sizes.items() if size > LONGEST_FILE} == {}


def lines_of_code(path: Path, tree: ast.Module) -> int:
    """Lines that are no blanks, comments or docstrings."""
    ends = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)
    with tokenize.open(path) as file:
        tokens = [token for token in tokenize.generate_tokens(file.readline) if token.type not in ends]
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docs = [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    found = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    return len(found - {line for doc in docs for line in range(doc.lineno, (doc.end_lineno or 0) + 1)})


def test_the_house_does_not_grow() -> None:
    found = {
        "files": len(TREES),
        "lines": sum(len(path.read_text("utf-8").splitlines()) for path in TREES),
        "lines of code": sum(lines_of_code(path, tree) for path, tree in TREES.items()),
    }
    page = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name, row in (("files", "files"), ("lines", "lines of the package"), ("lines of code", "of code (no")):
        assert found[name] <= MOST[name], f"{found[name]:,} {name}, at most {MOST[name]:,}: what leaves?"
        stated = re.search(rf"^\| {re.escape(row)}.*\| ([\d,]+) \| [\d,]+ \|$", page, re.M)
        assert stated is not None
        assert int(stated[1].replace(",", "")) == found[name], f"CONTRIBUTING.md: {found[name]:,} {name}"


def test_no_public_name_means_two_things() -> None:
    defined: dict[str, set[str]] = {}
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names = [node.name]
            else:
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            for name in names:
                defined.setdefault(name, set()).add(module_of(path))
    several = {name: modules for name, modules in defined.items() if len(modules) > 1 and name not in SAME_NAME}
    assert {name: m for name, m in several.items() if not name.startswith(("_", "register_"))} == {}


def test_the_rooms_are_as_large_as_the_page_says() -> None:
    """``CONTRIBUTING.md`` names the most lines that a room may have: no more than a twentieth above what it has."""
    page = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    stated = {room: int(n.replace(",", "")) for room, n in re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|$", page, re.M)}
    found = {room: 0 for room in stated}
    for path in TREES:
        if (room := room_of(module_of(path))) in found:
            found[room] += len(path.read_text("utf-8").splitlines())
    assert set(stated) == set(ROOMS) - {"session", "api", "plugin"}
    untrue = {room: (found[room], n) for room, n in stated.items() if not found[room] <= n <= found[room] * 1.05 + 5}
    assert untrue == {}


def test_docstrings_name_the_thing_or_say_what_is_done() -> None:
    """No docstring continues another sentence, or hides its noun behind a question."""
    found = [
        f"{path.name}: {text.partition(chr(10))[0]}"
        for path, tree in source_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(text := getattr(node.value, "value", None), str)
        if re.match(r"(What|Of|As|Why|How|Where|Which|From|Whose|When|Those|In|At|By|With|For)\b", text)
    ]
    assert found == []


def test_docstrings_of_private_functions_are_one_line() -> None:
    longer = [
        f"{path.name}: {node.name}"
        for path, tree in source_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and re.match("_[^_]", node.name)
        if "\n" in (ast.get_docstring(node) or "")
    ]
    assert longer == []


def test_names_say_what_they_hold() -> None:
    """``other`` stands where Python or torch calls the parameter so."""
    names = {"found", "told", "said", "one", "other", "place"}
    assigned = [
        f"{path.name}: {name}"
        for path, tree in source_trees()
        for node in ast.walk(tree)
        if (name := getattr(node, "arg", "") if isinstance(node, ast.arg) else stored(node)) in names
    ]
    assert assigned == ["batching.py: other", "encoder.py: other"]


def stored(node: ast.AST) -> str:
    """The name that an assignment, a loop or a comprehension sets here; empty elsewhere."""
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""


def source_trees() -> Iterator[tuple[Path, ast.Module]]:
    """All modules of the package and of the plugins in this checkout."""
    yield from TREES.items()
    for path in sorted((PACKAGE.parent / "plugins").glob("*/**/*.py")):
        if "tests" not in path.parts:
            yield path, ast.parse(path.read_text(encoding="utf-8"))
