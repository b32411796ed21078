"""The parts of a workspace, as functions of the package take them."""

from __future__ import annotations

from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.workspace import Workspace


def parts(workspace: Workspace) -> tuple[Plugins, Folders, Compute, Reporter]:
    """Plugins, folders, device and reporter of a workspace, in the order of arguments."""
    return workspace.plugins, workspace.folders, workspace.compute, workspace.reporter
