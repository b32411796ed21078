"""What of a user's texts is shown: nothing that a terminal obeys, and nothing at all under the switch."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mirrorbench
from mirrorbench.core.quoting import NO_TEXTS, printable, shown


@pytest.mark.parametrize(
    "control", ["\x1b[2J", "\x9b31m", "\r", "\x7f", "\u202e", "\u2066", "\ud800"], ids=ascii
)
def test_control_characters_become_json_escapes(control: str) -> None:
    found = printable(f"a{control}b")
    assert found == f"a\\u{ord(control[0]):04x}{control[1:]}b"
    assert json.loads(f'"{found}"') == f"a{control}b"


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_only_control_characters_are_escaped(text: str) -> None:
    """Compared with the properties that Unicode gives characters: control characters and marks of direction."""
    marks_of_direction = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    obeyed = []
    for character in text:
        is_control = unicodedata.category(character) == "Cc" and character not in "\n\t"
        if is_control or unicodedata.bidirectional(character) in marks_of_direction:
            obeyed.append(character)
    found = printable(text)
    assert printable(found) == found
    assert (found == text) == (not obeyed)
    assert not set(obeyed) & set(found)


def test_messages_quote_texts_or_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown("a\tb") == "'a\\tb'"
    assert shown("x" * 70) == f"'{'x' * 60}'... (70 characters)"
    monkeypatch.setenv(NO_TEXTS, "1")
    assert shown("secret") == "(a text of 6 characters)"


def test_commands_print_only_through_escaping_functions() -> None:
    """No command has another way to the terminal, and no report; lines of rich go through ``display``'s consoles."""
    package = Path(mirrorbench.__file__).parent
    allowed = {("cli/display.py", "typer.echo"), ("cli/__init__.py", "typer.echo")}
    found = set()
    for file in (*package.glob("cli/*.py"), *package.glob("reports/**/*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name in (
                    "print",
                    "typer.echo",
                    "typer.secho",
                    "Console",
                    "sys.stdout.write",
                    "sys.stderr.write",
                ):
                    found.add((file.relative_to(package).as_posix(), name))
    assert found <= allowed
