"""Every ``mirrorbench`` command on any page, and every example in a help text, is run, in the order of its page.

What it needs is what a reader has: see ``helpers/page_reader.py``. What only other machines have is in ``ABSENT``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.documentation_pages import PAGES, ROOT, files, own_commands, sections
from helpers.page_reader import Machine, Shell, install
from helpers.suite_marks import few, slow
from rich.console import Console


@dataclass(frozen=True)
class Absent:
    """What a command needs and no test has.

    Attributes:
        pattern: finds the commands.
        reason: what is missing.
        dry: run with ``--dry-run``; otherwise it is only seen whether the command line takes it.
    """

    pattern: str
    reason: str
    dry: bool = False


ABSENT = (
    Absent(r"hf upload", "uploads to the hub"),
    Absent(r"words-en-0-10k", "a minute or two: 20,000 words are tuned on", dry=True),
    Absent(
        r"-e minilm.*--seeds 3",
        "a real model, tuned several times: half an hour and more",
        dry=True,
    ),
    Absent(
        r"--executor (ray|slurm)",
        "processes of their own: tests/test_bundled_plugins.py starts them",
    ),
    Absent(r"endpoint:url=", "a server; the plugin's own tests start one"),
    Absent(r"--device cuda|roberta.mirror -t sts --seeds 3 --workers 2", "GPUs"),
    Absent(
        r"mirrorbench card", "data sets of the hub; tests/cli/test_card.py has one in the store"
    ),
    Absent(r"-t mteb-|--tasks mteb-", "data sets of the hub", dry=True),
    Absent(
        r"evaluate (\./faq\.csv|(\./)?cranfield)|same .* --data \./faq\.csv",
        "own data; the evaluate plugin's tests have such files",
    ),
    Absent(
        r"mirrorbench mteb run", "data sets of the hub; the plugin's own tests have them in memory"
    ),
)
OF_FILES = ("docs/plugins.md", "docs/own_data.md")
"""Pages with files of their own: their prompts are run by tests of those, what stands in their sentences here."""

REFERENCE = "docs/commands.md"
"""The help texts. Each command's examples begin at an empty desk."""
# What was done before, by the reader or by a page that this one continues.
BEFORE = {
    "docs/statistics.md": (
        "mirrorbench run -e tiny -t sts",
        "mirrorbench run -e tiny+mirror -t stsb -o old",
        "mirrorbench run -e tiny+mirror -t stsb -o new",
    ),
    "docs/commands.md: mirrorbench encode": (
        "mirrorbench tune my_texts.txt -e tiny -o my-encoder",
    ),
    "docs/commands.md: mirrorbench leaderboard": (
        "mirrorbench run -e bert -t sts",
        "mirrorbench run -e bert+base:pooling=cls -t simlex -o more-results",
    ),
    "docs/commands.md: mirrorbench compare": ("mirrorbench run -e tiny -t stsb",),
    "docs/commands.md: mirrorbench same": ("mirrorbench encode texts.txt -e minilm -o served.npy",),
    "docs/commands.md: mirrorbench analyze frequency": (
        "mirrorbench run -e bert+mirror:corpus=words-en-10-20k,corpus_size=50 -t multisimlex-en",
    ),
    "leaderboards/README.md": (
        "mirrorbench run -e tiny+base -t quick -o build/leaderboards/embedded",
    ),
    "plugins/mirrorbench-mteb/README.md": ("mirrorbench run -e tiny+base -t quick-sts",),
}
FIRST = {
    "README.md": "mirrorbench run -e minilm -t quick-simlex --baselines",
    "docs/measured.md": "mirrorbench run",
}
"""Commands that print the first table of their page."""
EXCERPTS = "docs/same.md"
"""Page whose blocks of text are excerpts of what its commands print."""
EXIT_CODES = {
    "mirrorbench same tiny vectors:path=served.npy --texts my_texts.txt": 4,
    "mirrorbench same tiny tiny:type=binary"
    " --data ./words.tsv:sentence1=word1,sentence2=word2 --margin .02": 3,
}
"""Exit codes of commands whose verdict is another one than success."""
QUIET = re.compile(r"--output|-o ")
"""Commands that may leave a file and print nothing."""


def scenes() -> Iterator[tuple[str, list[str]]]:
    """The commands that one sitting runs, by their place."""
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        if name == REFERENCE:
            for heading, text in sections(page).items():
                yield f"{name}: {heading.strip('`')}", own_commands(text)
        else:
            text = page.read_text(encoding="utf-8")
            yield (
                name,
                own_commands(
                    re.sub(r"^\$ .*$", "", text, flags=re.M) if name in OF_FILES else text
                ),
            )


SCENES = {name: commands for name, commands in scenes() if commands}


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, random_model: Callable[[str], Path]
) -> Iterator[Machine]:
    base = tmp_path_factory.getbasetemp()
    shared = (
        base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    )  # one process tunes, the other waits for it
    made = Machine(tmp_path_factory.mktemp("reader"), shared / "reader-cache", random_model)
    with made.running():
        yield made


@pytest.fixture
def run(
    request: pytest.FixtureRequest,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    """Runs a command where the scene takes place."""
    page = request.node.callspec.params["scene"].partition(":")[0]
    desk = tmp_path / "desk"
    shown = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    machine.desk(desk, *shown[:1] if page == "docs/cluster.md" else ())
    if page == "docs/tutorial.md":
        for name, text in files(ROOT / page).items():
            (desk / name).write_text(text, encoding="utf-8")
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    project = (ROOT / page).parent
    own = (
        page.startswith("plugins/") and (project / "pyproject.toml").is_file()
    )  # others come with mirrorbench
    on_path = install(project, tmp_path / "site") if own else []
    for folder in on_path:
        monkeypatch.syspath_prepend(folder)
    return Shell(desk, monkeypatch, capsys.readouterr)


@pytest.mark.real
@pytest.mark.parametrize("scene", few(SCENES, "README.md", EXCERPTS, suite=slow))
def test_documented_commands_run_without_errors(scene: str, run: Shell) -> None:
    wrong = []
    outputs = []
    for command in (*BEFORE.get(scene, ()), *SCENES[scene]):
        absent = next((one for one in ABSENT if re.search(one.pattern, command)), None)
        if absent and not absent.dry:
            run.check(command)
            continue
        drawn = scene == "README.md" and command == FIRST[scene]
        with pytest.MonkeyPatch.context() as patch:
            if drawn or scene == EXCERPTS:
                wide = Console(width=100, force_terminal=True, color_system=None)
                patch.setattr("mirrorbench.cli.display.console", wide)
            said = run(f"{command} --dry-run" if absent else command)
        outputs.append(said.out)
        impossible = "--dry-run" in said.command and " 0 cannot run" not in said.out
        silent = not (said.out or QUIET.search(command))
        failed = said.code != EXIT_CODES.get(command, 0)
        if failed or "Traceback" in said.err or impossible or silent:
            wrong.append(
                f"{command}\nexit code {said.code}\n{said.out[-2000:]}\n{said.err[-2000:]}"
            )
        page = (ROOT / scene).read_text(encoding="utf-8") if command == FIRST.get(scene) else ""
        if drawn:
            check_first_screen(f"{said.out}{said.err.splitlines()[-1]}", page)
        elif page:
            check_table(said.out, page)
    assert not wrong, "\n\n".join(wrong)
    if scene == EXCERPTS:
        check_excerpts(outputs, (ROOT / scene).read_text(encoding="utf-8"))


def check_first_screen(printed: str, page: str) -> None:
    """The first block of the README is what its first command prints, but for last digits and the time it took."""
    block = re.search(r"```text\n(.*?)```", page, re.S)
    assert block
    number = r"[-+]?\d*\.\d{3}"
    ours, theirs = (
        [
            re.sub(r"\((?:[\d.]+ (?:s|min|h) ?)+\)", "(time)", line.rstrip())
            for line in text.splitlines()
            if line.strip()
        ]
        for text in (printed, block[1])
    )
    assert [re.sub(number, "#", line) for line in ours] == [
        re.sub(number, "#", line) for line in theirs
    ]
    for line, shown in zip(ours[:-1], theirs[:-1], strict=True):
        found, wanted = ([float(one) for one in re.findall(number, text)] for text in (line, shown))
        assert found == pytest.approx(wanted, abs=0.01), line
    assert len(ours) <= 17


def check_excerpts(outputs: list[str], page: str) -> None:
    """Each block of text on a page is a part of an output, but for line breaks and last digits."""
    number = r"[-+]?(?:\d[\d,]*)?\.?\d+"
    blocks = re.findall(r"```text\n(.*?)```", page, re.S)
    assert len(blocks) >= 2
    for block in blocks:
        shown = " ".join(block.split())
        pattern = f"({number})".join(map(re.escape, re.split(number, shown)))
        printed = " ".join("\n".join(outputs).split())
        found = re.search(pattern, printed)
        assert found, f"not printed:\n{block}\n{printed}"
        ours, theirs = (
            [float(text.replace(",", "")) for text in texts]
            for texts in (found.groups(), re.findall(number, shown))
        )
        assert ours == pytest.approx(theirs, rel=0.01, abs=0.01), block


def check_table(printed: str, page: str) -> None:
    """The first table of a page is what its run prints; tuned on other processors, scores may differ a little."""
    rows, shown = _scores(printed), _scores(page)
    assert len(rows) >= 6
    assert rows.keys() == shown.keys()
    for label, scores in rows.items():
        assert shown[label] == pytest.approx(scores, abs=0.01), label


def _scores(text: str) -> dict[str, list[float]]:
    """The scores and deviations of each encoder in the first table."""
    table = re.search(r"^\| encoder +\|.*\n\|[-:|]+\n((?:\|.*\n)+)", text, re.M)
    assert table
    rows = [row.split("|")[1:-1] for row in table[1].splitlines()]
    return {
        label.strip(): [float(s) for s in re.findall(r"\.\d{3}", "".join(cells))]
        for label, *cells in rows
    }
