"""Tools: the state of the installation (``doctor``), and a package to start from (``plugin new``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import Register, hookimpl

if TYPE_CHECKING:
    from mirrorbench.plugin import Workspace


@hookimpl
def register_tools(register: Register) -> None:
    """Register ``doctor`` for ``Session.doctor``."""
    register("doctor", doctor, "versions, devices, folders, plugins, missing data")


def doctor(workspace: Workspace) -> dict[str, Any]:
    """Return the findings of ``mirrorbench doctor``."""
    from mirrorbench_tools.installation import examine_installation

    return examine_installation(workspace)
