"""Make plans of requests: examine the models, then plan the cells."""

from __future__ import annotations

from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import check_corpus
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.examination import Examiner
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.plan import Plan, PlannedModel, Planner
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.runs.tuning_corpora import TuningCorpora
from mirrorbench.tasks.base import Task


class PlanMaker:
    """Makes the plans of one run. Later requests reuse what was looked up for earlier ones.

    Args:
        plugins: all that is registered.
        folders: data and cache.
        compute: device and precisions.
        reporter: receives progress and notes.
        fetch: whether to download missing data (not in a dry run).

    Attributes:
        corpora: the corpora that were read so far.
        examiner: examines models.
        planner: plans cells.
    """

    def __init__(
        self,
        plugins: Plugins,
        folders: Folders,
        compute: Compute,
        reporter: Reporter,
        fetch: bool = True,
    ) -> None:
        self.plugins = plugins
        self.corpora = TuningCorpora(plugins, folders.data, reporter.note)
        self.examiner = Examiner(plugins, folders, compute, reporter, self.corpora)
        self.planner = Planner(
            plugins,
            folders.data,
            self.corpora,
            compute,
            reporter.note,
            fetch,
        )

    def plan(self, request: Request) -> Plan:
        """Plan a request; what cannot be planned becomes a failure of the plan.

        Raises:
            UsageError: the request is wrong.
        """
        tasks: list[Task] = [self.plugins.tasks[name] for name in request.tasks]
        if request.corpus:  # checked even if nothing is tuned, to report mistakes
            check_corpus(request.corpus, self.plugins.corpora)
        examined = self.examiner.examine(request, tasks)
        return self.planner.plan(request, tasks, examined)

    def models(self, request: Request, spec: EncoderSpec, purpose: Purpose) -> list[PlannedModel]:
        """Plan the models of a row without tasks: one for each seed, a single one if nothing is tuned."""
        examined = self.examiner.examine_row(request, spec, purpose)
        return self.planner.models(request, spec, purpose, examined)
