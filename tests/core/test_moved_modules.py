"""Import paths of before: each name that the pages listed is found, with a warning."""

from __future__ import annotations

from importlib import import_module

import pytest

import mirrorbench.plugin
from mirrorbench.core.moved_modules import MOVED

LISTED = {
    "core.inputs": "DECIMALS Array Encoder TextInput as_inputs encode_checked rounded unit",
    "core.shown": "shown without_texts",
    "core.checksums": "ABOUT content kept_checksum kept_folder unchanged",
    "core.files": "POLL_SECONDS TEMPORARY Leases cache_root unwritable writing",
    "data.cardfile": "builtin_cards builtin_suites load_cards",
    "data.formats": "Columns TableRow by_name json_rows",
    "data.formats.contexts": "RELEASED STATEMENTS WORDPUNCT",
    "data.formats.lines": "fields_of parse_lines",
    "data.rows": "format_of line_error pyarrow read_rows",
    "data.textfiles": "Ids decoded parse_json parse_number read_bytes read_lines unmark",
    "models.directories": "modules",
    "models.encoder": "TEXTS_PER_CHUNK TransformerEncoder one_behind",
    "models.systems": "EncoderContext LazyEncoder checked_params",
    "reports.papers": "Tables",
    "reports.papers.targets": "AskedAnalysis",
    "runs.cache": "CACHE_FOLDERS STATEMENT Cache",
    "runs.cache_entries": "entries",
    "runs.results": "Result hidden_id read_predictions read_result read_results result_files",
    "runs.run": "execute_plan load_encoder make_plan",
    "runs.loading": "EncoderLoader",
    "runs.recipe": "check_spec",
    "training.objective": "Objective",
}
"""Names by the module in which the pages of version 0.1.0 listed them."""


def test_every_moved_path_is_listed() -> None:
    assert {f"mirrorbench.{module}" for module in LISTED} == MOVED.keys()


@pytest.mark.parametrize("module", LISTED)
def test_old_paths_forward_with_a_warning(module: str) -> None:
    old = import_module(f"mirrorbench.{module}")
    for name in LISTED[module].split():
        with pytest.warns(DeprecationWarning, match=f"{module}.{name} is mirrorbench"):
            value = getattr(old, name)
        assert value is not None
        if name in dir(mirrorbench.plugin):
            assert value is getattr(mirrorbench.plugin, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    old = import_module("mirrorbench.core.shown")
    with pytest.raises(AttributeError, match=r"mirrorbench\.core\.shown.*'nothing'"):
        old.nothing  # noqa: B018
