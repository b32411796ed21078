"""Write the reference pages from the code and its measured values; without ``--write`` only check that they agree.

python docs/_build_scripts/generate.py            # exit code 1 if a page differs from the code
python docs/_build_scripts/generate.py --write    # update the pages
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import api_page
import command_page
import measured_page
import own_data_files_page
import plugin_page
import task_pages

DOCS = Path(__file__).resolve().parents[1]
SHORT_NAMES = "<!-- short names: docs/_build_scripts/generate.py -->"
END = "<!-- end of short names -->"


def backbone_list() -> str:
    """Return the page of backbones with its table of short names updated."""
    from mirrorbench.models.backbones import BACKBONES, EMBEDDED

    before, _, rest = (DOCS / "backbones.md").read_text(encoding="utf-8").partition(SHORT_NAMES)
    lines = [SHORT_NAMES, "", "| short name | model | size | pooling |", "|---|---|---|---|"]
    for known in BACKBONES.values():
        url = f"https://huggingface.co/{known.hub_id}"
        model = (
            "included"
            if known.hub_id == EMBEDDED
            else f"[{known.hub_id}]({url}){', gated' * known.gated}"
        )
        size = f"{known.millions:g}M" if known.millions else ""
        read = known.pooling or ", ".join(f"{key}={value}" for key, value in known.readout.items())
        lines.append(f"| {' | '.join((f'`{known.name}`', model, size, read))} |")
    return before + "\n".join([*lines, "", END]) + rest.partition(END)[2]


def computations() -> str:
    """Return the page on the version of the computation, and on results of earlier versions."""
    from mirrorbench.core.identity import COMPUTATION, COMPUTATIONS

    lines = [
        "# Computations",
        "",
        "A code change that alters numbers raises the version of the computation, which is part of the identity of",
        f"every result, tuned model and cached vector. Changes in version {COMPUTATION}, the current version",
        "([earlier versions](../mirrorbench/core/identity.py)):",
        "",
        f"> {COMPUTATIONS[COMPUTATION]}",
        "",
        "| command | results of earlier versions |",
        "|---|---|",
        "| `run` | computed again; old files are kept |",
        "| `leaderboard` | left out if newer ones exist; a note names the command that computes them again |",
        "| `compare`, `paper`, `analyze curves` | used if newer ones are incomplete; a note lists those left out |",
        "| `mteb export` | left out |",
        "",
        "`mirrorbench cache prune --earlier` removes tuned models and vectors of earlier versions. Corpora",
        "are valid for all versions.",
    ]
    return "\n".join(lines) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path below ``docs/`` and the text of every page."""
    yield "commands.md", command_page.page()
    yield "plugins.md", plugin_page.page()
    yield "backbones.md", backbone_list()
    yield "computations.md", computations()
    yield from api_page.pages().items()
    yield "own_data_files.md", own_data_files_page.page()
    yield measured_page.PAGE, measured_page.page()
    yield from task_pages.pages().items()


def main() -> int:
    """Write or check every page."""
    stale = []
    for name, text in pages():
        path = DOCS / name
        if "--write" in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        sys.stderr.write(
            f"out of date: {', '.join(stale)}; run: python docs/_build_scripts/generate.py --write\n"
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
