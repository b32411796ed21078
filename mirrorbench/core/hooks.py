"""The hooks: what a plugin may register, built-ins and third parties alike.

A plugin is any module with functions marked ``@mirrorbench.hookimpl`` and named like the methods of ``HookSpecs``.
Every hook receives a ``register`` callback, so that names, origins and duplicates are checked in one place
(``mirrorbench.core.plugins``).
"""

from __future__ import annotations

from collections.abc import Callable

import pluggy

PROJECT = "mirrorbench"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Register = Callable[..., None]


class HookSpecs:
    """The hooks. Each is called once, when the first name of its kind is looked up."""

    @hookspec
    def register_encoders(self, register: Register) -> None:
        """``register(name, open_encoder, description="")``: systems that are encoders of their own.

        ``open_encoder(spec, context)`` gets the parsed ``EncoderSpec`` and an ``EncoderContext`` (device, precision,
        offline) and returns an object with ``encode(inputs) -> float array (n, d)`` and a ``fingerprint`` string
        that changes whenever its vectors would.
        """

    @hookspec
    def register_methods(self, register: Register) -> None:
        """``register(name, method, description="")``: what can be done to a backbone (``+mirror``).

        ``method`` is a ``mirrorbench.training.methods.Method``: its recipe presets and how it tunes.
        """

    @hookspec
    def register_poolings(self, register: Register) -> None:
        """``register(name, pooling, description="")``: how a text is read; values of the spec key ``pooling``.

        ``pooling`` is a function ``(states, tokens) -> vectors``: from float32 tensors of shape (texts, width,
        dimensions), the mean over the spec's ``layers``, to (texts, dimensions). ``tokens`` holds the ``mask`` of what
        is no padding and token ``ids``, both (texts, width), and the ``tokenizer``; under a name that begins with
        ``target`` also ``target``, the weights of the target word's tokens (``mirrorbench.models.pooling``).
        """

    @hookspec
    def register_losses(self, register: Register) -> None:
        """``register(name, loss, description="")``: what a tuning minimises; a recipe's ``loss`` is one of the names.

        ``loss`` is a function ``(left, right, temperature, labels) -> scalar tensor`` of the vectors of both views, as
        in ``mirrorbench.training.objective``; further arguments get the recipe's values of their names. What has
        models, modules, a schedule or a state of its own is a subclass of ``Objective`` there instead.
        """

    @hookspec
    def register_augmentations(self, register: Register) -> None:
        """``register(name, function, on="text", description="", probability=False)``: ways to make two views.

        ``on="text"``: ``function(text, context) -> text``, applied to one side of each pair (both under ``sides=2``);
        ``context`` holds ``rng``, ``rate`` (the value given in the spec), ``mask_token`` and ``protocol``.
        ``on="tokens"``: ``function(ids, context) -> ids``, of the same length under the pooling ``target``; ``context``
        holds ``mask_id`` and ``special_ids`` instead of the token. ``on="model"``: an object with
        ``configure(config, rate)`` and ``attach(model, rate)``, which may return a function that undoes it, and with
        ``packs = True`` if it permits texts without padding (``mirrorbench.training.augmentations.ModelAugmentation``).
        The name is the spec key; ``probability=True`` limits its value to [0, 1).
        """

    @hookspec
    def register_parsers(self, register: Register) -> None:
        """``register(name, parse, description="")``: a reader of files, which a card names as its ``parser``.

        ``parse(files, options) -> list`` gets paths by the names in the card and the card's ``options``, and returns
        the items that the card's kind works on. It raises ``DataFormatError`` with file and line for what it does not
        understand; ``mirrorbench.plugin.Columns`` reads tables that way.
        """

    @hookspec
    def register_task_kinds(self, register: Register) -> None:
        """``register(name, kind, description="")``: what is done with the items of a card that states this ``kind``.

        ``kind`` is a subclass of ``mirrorbench.tasks.TaskKind``: it checks the items, names what must be encoded, and
        scores the vectors.
        """

    @hookspec
    def register_tasks(self, register: Register) -> None:
        """``register(task)``: a ``mirrorbench.tasks.Task``, a ``Card``, or the path of a card (YAML)."""

    @hookspec
    def register_readers(self, register: Register) -> None:
        """``register(name, read, description="")``: tasks from a user's own data, named by their path (``-t ./data``).

        ``read(name, path, options)`` returns a ``mirrorbench.tasks.Task`` called ``name``, or ``None`` where the file
        or folder is not of its format. ``options`` are those behind the path (``./data:kind=triplets``).
        """

    @hookspec
    def register_corpora(self, register: Register) -> None:
        """``register(corpus)``: a tuning corpus, as a ``Card``, the path of a card (YAML), or a ``GeneratedCorpus``."""

    @hookspec
    def register_metrics(self, register: Register) -> None:
        """``register(name, function, description="")``: ``function(scores, gold) -> float or None`` (undefined)."""

    @hookspec
    def register_renderers(self, register: Register) -> None:
        """``register(name, function, description="", endings=())``: ``function(table) -> str``.

        ``table`` is a ``mirrorbench.reports.table.Table``: values, of which the function makes text. Keyword-only
        arguments with a bool, a number or a text as default are options of the format (``percent=False``:
        ``--format NAME:percent=true``). ``endings`` (``.md``) choose the format where ``--output`` has one of them.
        """

    @hookspec
    def register_papers(self, register: Register) -> None:
        """``register(name, folder, description="")``: published tables, for ``mirrorbench paper name/FILE``.

        Each YAML file of the folder is a table or figure, with the keys that ``docs/papers.md`` lists.
        """

    @hookspec
    def register_tools(self, register: Register) -> None:
        """``register("doctor", function, description="")``: ``function(workspace)`` is ``Session.doctor``."""

    @hookspec
    def register_tables(self, register: Register) -> None:
        """``register(name, tables, description="")``: published tables, read and measured.

        ``tables(plugins)`` returns a ``mirrorbench.reports.selection.Layout`` for each table by its name, for
        ``leaderboard --table``. Those called ``papers`` have the methods of a ``Session`` on papers:
        ``paper(workspace, table, encoder, protocol)``, ``papers(workspace, paper, encoder, protocol)`` and
        ``run_paper(workspace, table, encoder, seeds, protocol)``.
        """

    @hookspec
    def register_executors(self, register: Register) -> None:
        """``register(name, execute, description="", device=None)``: where a plan's groups of cells are computed.

        ``execute(job)`` gets a ``mirrorbench.runs.executors.Job`` and yields a ``CellOutcome`` for every cell, in any
        order. Each of ``job.groups`` is for one worker, which calls ``compute(job.context, group)`` of the same module
        in whatever process; ``job.share()`` first makes the corpora reachable from there.
        ``job.known(key=default, ...)`` gives the options of the command line and refuses others.
        Where workers are on other machines, ``device(asked, options)`` says what they compute on (``cpu``, ``cuda``),
        from ``--device`` and the executor's options: the run is planned for it, and a worker without it refuses.
        ``tests/harness/executors.py`` of a checkout has fixtures for the tests of an executor.
        """

    @hookspec
    def register_analyses(self, register: Register) -> None:
        """``register(name, analysis, description="")``: what tuning changes in a space of vectors.

        ``analysis(workspace, **options)`` returns what ``Session.analyze(name, **options)`` does. For the tables of the
        papers ``analysis.measure(workspace, asked, specs, seeds, protocol)`` analyses encoders one by one, stores a
        result of each, and returns their ``Outcome``; ``asked`` is a ``mirrorbench_papers.targets.AskedAnalysis``.
        """

    @hookspec
    def register_grids(self, register: Register) -> None:
        """``register(name, plan, description="")``: runs of many blocks, for ``mirrorbench run NAME``.

        ``name`` is that of a grid, or the ending of files that hold one (``.toml``). ``plan(name, workspace, backbones,
        limit, fetch, **given)`` returns a ``Plan``, most often that of ``mirrorbench.plugin.make_plan`` for some
        ``Request``s. ``backbones`` (specs, of ``--encoder``) stand in place of the grid's own, ``given`` (``tasks``,
        ``seeds``, ``corpus``, ``protocol``, ``baselines``) for its own values unless empty; suites among the tasks are
        expanded by ``expand_tasks``. ``limit`` is that of a ``Request``; without ``fetch`` nothing is downloaded.
        """
