"""Count what one score executes: modules and functions of mirrorbench that a run of one cell calls.

    python benchmarks/executed.py [--tuned] [--list] [--check CONTRIBUTING.md]

The command is ``mirrorbench run -e tiny+base:pooling=mean -t quick-sts --offline`` with empty cache and results, in this
process; with ``--tuned`` it is the README's first run with the model inside the package. Functions are counted once, however often they are called, in all threads; methods and lambdas are functions,
comprehensions and what only an import executes are not. With ``--list``, the functions of each module follow. With
``--check``, the modules that a page does not name (`` `runs.plan` ``) are printed, and are an error.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
import platform
import re
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

COMMAND = ("run", "-e", "tiny+base:pooling=mean", "-t", "quick-sts", "--offline")
TUNED = ("run", "-e", "tiny", "-t", "quick-simlex", "--baselines", "--offline")


@contextlib.contextmanager
def recorded_calls() -> Iterator[set[CodeType]]:
    """Yield a set that receives the code of every function called inside the block, in threads started there too."""
    calls: set[CodeType] = set()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls.add(frame.f_code)

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run_once(folder: Path, command: Sequence[str]) -> set[CodeType]:
    """Run a command with empty caches below ``folder``; return the code of all functions that it called.

    Raises:
        SystemExit: The command failed; its output is the message.
    """
    os.environ["MIRRORBENCH_CACHE"] = str(folder / "cache")
    os.environ["MIRRORBENCH_DATA"] = str(folder / "data")
    sys.argv = ["mirrorbench", *command, "--output", str(folder / "results")]
    output = io.StringIO()
    with recorded_calls() as calls, contextlib.redirect_stdout(output):
        from mirrorbench.cli import main

        try:
            main()
        except SystemExit as end:
            if end.code:
                raise SystemExit(output.getvalue()) from end
    return calls


def is_function(code: CodeType) -> bool:
    """Return whether code is that of a function, and not of a module, a class or a comprehension."""
    if not code.co_flags & inspect.CO_OPTIMIZED:  # modules and classes, which an import executes
        return False
    return code.co_name == "<lambda>" or not code.co_name.startswith("<")


def functions_by_module(calls: set[CodeType]) -> dict[str, list[str]]:
    """Return the names of mirrorbench's called functions by their module."""
    paths = {
        module.__file__: name
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "mirrorbench" and getattr(module, "__file__", None)
    }
    functions = defaultdict(set)
    for code in filter(is_function, calls):
        module = paths.get(code.co_filename)
        if module is not None:
            functions[module].add(f"{code.co_qualname}:{code.co_firstlineno}")
    return {module: sorted(names) for module, names in sorted(functions.items())}


def missing_modules(page: Path, modules: Iterable[str]) -> list[str]:
    """Return the modules that a page does not name, without the name of the package in front."""
    named = set(re.findall(r"`([\w.]+)`", page.read_text(encoding="utf-8")))
    short = (module.removeprefix("mirrorbench.") for module in modules)
    return sorted(set(short) - named)


def main() -> None:
    """Run, count and print a row for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="also print the functions by module")
    parser.add_argument("--tuned", action="store_true", help="tune, with baselines")
    parser.add_argument("--check", type=Path, help="page that has to name all modules")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        functions = functions_by_module(
            run_once(Path(folder), TUNED if arguments.tuned else COMMAND)
        )
    names = [name for name in sys.modules if name.partition(".")[0] == "mirrorbench"]
    called = sum(len(names) for names in functions.values())
    print("| modules imported | modules with a called function | functions called | Python |")
    print("|---|---|---|---|")
    print(f"| {len(names)} | {len(functions)} | {called} | {platform.python_version()} |")
    if arguments.list:
        for module, called_functions in functions.items():
            print(f"\n{module} ({len(called_functions)})")
            for name in called_functions:
                print(f"  {name}")
    if arguments.check:
        missing = missing_modules(arguments.check, functions)
        if missing:
            raise SystemExit(f"{arguments.check} does not name: {', '.join(missing)}")


if __name__ == "__main__":
    main()
