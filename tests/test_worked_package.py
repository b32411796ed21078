"""The package in tests/worked_package, which was written from docs/plugins.md alone, as its users install it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.fresh_environments import Fresh, fresh_environment

PACKAGE = Path(__file__).resolve().parent / "worked_package" / "mirrorbench-latent"
COMMANDS = {
    "mirrorbench run -e latent -e latent:rank=8 -e tiny+base:pooling=mean -t odd-words --offline": "latent:rank=8",
    "mirrorbench compare latent tiny+base:pooling=mean": "A - B",
    "mirrorbench run -e latent -t odd-words -o other --executor threads:workers=2": ".600",
    "mirrorbench latent bread": "bread",
}
"""Commands, and what they print."""


@pytest.mark.slow
def test_worked_package_passes_its_tests_from_a_wheel(tmp_path: Path, published: Path) -> None:
    environment: Fresh = fresh_environment(tmp_path, list(published.glob("mirrorbench-*.whl")))
    work = tmp_path / "work"
    shutil.copytree(PACKAGE, work / "source")
    wheel = "pip wheel --no-deps --no-build-isolation --wheel-dir dist ./source"
    environment.run("python", "-m", *wheel.split(), cwd=work)
    (built,) = (work / "dist").glob("*.whl")
    environment.run(
        "python", "-m", "pip", "install", "--no-deps", "--no-index", str(built), cwd=work
    )
    # Only the installed files are left beside the tests.
    shutil.rmtree(work / "source" / "mirrorbench_latent")
    passed = environment.run("python", "-m", "pytest", "-q", "source/tests", cwd=work).stdout
    assert " passed" in passed
    for command, expected in COMMANDS.items():
        said = environment.run(*command.split(), cwd=work)
        assert expected.lower() in said.stdout.lower(), (command, said.stdout, said.stderr)
