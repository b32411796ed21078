"""The project's checks: ``nox`` runs them all, ``nox -s tests`` one."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "citation", "types", "docs", "tests"]
CONSTRAINTS = ("-c", "constraints.txt")


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Run the tests of CI: each behaviour once, then the slow tests; arguments go to pytest."""
    session.install(*CONSTRAINTS, "-e", ".[test]")
    session.run("pytest", "-n", "2", "-m", "not full", *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """Test every family, folder of modules, command of the pages and combination; arguments go to pytest."""
    session.install(*CONSTRAINTS, "-e", ".[test,site]")
    session.run("pytest", "-n", "2", "-m", "full", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Test properties of parsers and of the spec grammar on thousands of new examples; arguments go to pytest."""
    session.install(*CONSTRAINTS, "-e", ".[test]")
    targets = ("tests/data/parsers/test_fuzz.py", "tests/core/test_specs.py")
    session.run("pytest", "-n", "2", "--hypothesis-profile=search", *(session.posargs or targets))


@nox.session
def soak(session: nox.Session) -> None:
    """Kill processes hundreds of times, for an hour; the figures are kept in docs/faults.md."""
    session.install(*CONSTRAINTS, "-e", ".[test]")
    targets = ("tests/runs/test_kill.py", "tests/texts/test_kill_tune.py")
    session.run("pytest", "-n", "2", "-m", "not full", "--soak", *(session.posargs or targets))


@nox.session
def lint(session: nox.Session) -> None:
    """Check rules and format with Ruff, imports of packages with import-linter, and workflows by their schema."""
    session.install(*CONSTRAINTS, "ruff", "import-linter", "check-jsonschema")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)


@nox.session
def citation(session: nox.Session) -> None:
    """Check CITATION.cff; cffconvert needs an older jsonschema than the other checks."""
    session.install("cffconvert==2.0.0")
    session.run("cffconvert", "--validate")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy, strict."""
    session.install(*CONSTRAINTS, "-e", ".[dev]")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Check the generated pages (``nox -s docs -- --write`` renews them), build the site in build/site, check links."""
    session.install(*CONSTRAINTS, "-e", ".[site]")
    session.run("python", "docs/_build_scripts/generate.py", *session.posargs)
    shutil.rmtree("build/site", ignore_errors=True)  # pages that are gone
    strict = ("--fail-on-warning", "--keep-going", "--fresh-env")
    folders = ("--conf-dir", "docs", "--doctree-dir", "build/doctrees", ".", "build/site")
    session.run("sphinx-build", "--quiet", *strict, *folders)
    session.run("python", "docs/_build_scripts/site_links.py", "build/site")


@nox.session
def publish(session: nox.Session) -> None:
    """Rehearse a publication: files for the index, twine's check, a fresh environment with them, a run; no upload."""
    session.install(*CONSTRAINTS, "build", "hatchling", "twine")
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder / "dist", ignore_errors=True)
    session.run("python", "publish.py", str(folder / "dist"))
    session.run("python", "-m", "venv", "--clear", str(folder / "fresh"))
    wheels = [
        str(next((folder / "dist").glob(f"{name}-*.whl")))
        for name in ("mirrorbench", "mirrorbench_methods")
    ]
    programs = folder / "fresh" / "bin"
    session.run(str(programs / "pip"), "install", "-q", *CONSTRAINTS, *wheels, external=True)
    session.chdir(folder)
    run = (str(programs / "mirrorbench"), "run", "-t", "quick-sts", "--output", "results")
    session.run(*run, "-e", "tiny", external=True)
    session.run(*run, "-e", "tiny+simcse:corpus_size=64,batch_size=16", external=True)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure speed on this machine; prints the tables of benchmarks/RESULTS.md. Arguments go to speed.py."""
    session.install(*CONSTRAINTS, "-e", ".[test]")
    session.run("python", "benchmarks/default_run.py", "--repeat", "1")
    session.run("python", "benchmarks/speed.py", *session.posargs)


@nox.session
def leaderboards(session: nox.Session) -> None:
    """Render the leaderboards of leaderboards/rendered, from their own runs. Arguments go to render.py (--no-run)."""
    session.install(*CONSTRAINTS, "-e", ".[test]", "./plugins/mirrorbench-methods")
    session.run("python", "leaderboards/render.py", *session.posargs)
