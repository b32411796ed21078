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
    """The hooks. Each is called once, at the first lookup of a name."""

    @hookspec
    def register_encoders(self, register: Register) -> None:
        """``register(name, open_encoder, description="", keys=None)``: encoders with names of their own.

        ``open_encoder(spec, context)`` gets an ``EncoderSpec`` and an ``EncoderContext`` (device, precision, offline).
        It returns an object with ``encode(inputs)``, a float array of shape (n, d), and ``fingerprint``, a text that
        changes whenever the vectors change. ``keys`` are the keys of its spec with their types, such as
        ``{"dims": int}``; other keys are then refused. Without ``keys`` the encoder has to check its spec itself.
        """

    @hookspec
    def register_methods(self, register: Register) -> None:
        """``register(name, method, description="")``: methods for backbones (``+mirror``).

        ``method`` is a ``Method``: its label, its recipe for each level, and how it makes pairs of texts.
        """

    @hookspec
    def register_poolings(self, register: Register) -> None:
        """``register(name, pooling, description="")``: values of the spec key ``pooling``.

        ``pooling(states, tokens)`` makes float32 vectors (texts, dimensions) from the mean over the spec's layers
        (texts, width, dimensions). ``tokens`` has ``mask``, ``ids`` and ``tokenizer``; under a name that begins with
        ``target`` also ``target``, the weights of the target word's tokens.
        """

    @hookspec
    def register_losses(self, register: Register) -> None:
        """``register(name, loss, description="")``: values of the recipe key ``loss``.

        ``loss(left, right, temperature, labels)`` returns a scalar tensor for the vectors of both views. Further
        arguments receive the recipe's values of their names. A loss with models, modules or a state of its own is a
        subclass of ``mirrorbench.training.losses.Objective``.
        """

    @hookspec
    def register_augmentations(self, register: Register) -> None:
        """``register(name, function, on="text", description="", probability=False)``: ways to make two views.

        The name is a spec key, its value is ``context.rate``; ``probability=True`` limits it to [0, 1).
        ``on="text"``: ``function(text, context) -> text``, where ``context`` has ``rng``, ``mask_token`` and
        ``protocol``.
        ``on="tokens"``: ``function(ids, context) -> ids``, where ``context`` has ``mask_id`` and ``special_ids``.
        ``on="model"``: a ``mirrorbench.training.augmentations.ModelAugmentation``, which changes the model itself.
        """

    @hookspec
    def register_parsers(self, register: Register) -> None:
        """``register(name, parse, description="")``: readers of files; a card's key ``parser``.

        ``parse(files, options)`` gets paths by the names in the card, and the card's ``options``. It returns the items
        of the card's kind, or raises ``DataFormatError`` with file and line. ``Columns`` reads tables in this way.
        """

    @hookspec
    def register_task_kinds(self, register: Register) -> None:
        """``register(name, kind, description="")``: kinds of tasks; a card's key ``kind``.

        ``kind`` is a subclass of ``TaskKind``: it checks the items, names the texts to encode, and scores the vectors.
        """

    @hookspec
    def register_tasks(self, register: Register) -> None:
        """``register(task)``: a ``Task``, a ``Card``, or the path of a card (YAML)."""

    @hookspec
    def register_readers(self, register: Register) -> None:
        """``register(name, read, description="")``: tasks from a user's own data, named by path (``-t ./data``).

        ``read(name, path, options)`` returns a ``Task`` called ``name``, or ``None`` for data in another format.
        ``options`` follow the path (``./data:kind=triplets``).
        """

    @hookspec
    def register_corpora(self, register: Register) -> None:
        """``register(corpus)``: a tuning corpus: a ``Card``, the path of a card (YAML), or a ``GeneratedCorpus``."""

    @hookspec
    def register_metrics(self, register: Register) -> None:
        """``register(name, function, description="")``: ``function(scores, gold)``, a float or ``None``."""

    @hookspec
    def register_renderers(self, register: Register) -> None:
        """``register(name, function, description="", endings=())``: formats of tables.

        ``function(table)`` returns a ``Table`` as text. Keyword-only arguments with a bool, a number or a text as
        default are options of the format (``--format NAME:percent=true``). ``endings`` (``.md``) select it by the name
        of the output.
        """

    @hookspec
    def register_papers(self, register: Register) -> None:
        """``register(name, folder, description="")``: published tables, for ``mirrorbench paper name/FILE``.

        Each YAML file of the folder is a table or figure; ``leaderboards/README.md`` lists the keys.
        """

    @hookspec
    def register_tools(self, register: Register) -> None:
        """``register("doctor", function, description="")``: ``function(workspace)`` is ``Session.doctor``."""

    @hookspec
    def register_tables(self, register: Register) -> None:
        """``register(name, tables, description="")``: published tables, for ``leaderboard --table``.

        ``tables(plugins)`` returns a ``Layout`` for each table by its name. Under the name ``papers`` it also has the
        methods ``paper(workspace, table, encoder, protocol)``, ``papers(workspace, paper, encoder, protocol)`` and
        ``run_paper(workspace, table, encoder, seeds, protocol)`` of ``Session``.
        """

    @hookspec
    def register_executors(self, register: Register) -> None:
        """``register(name, execute, description="", device=None)``: where cells are computed (``--executor``).

        ``execute(job)`` gets a ``Job`` and yields a ``CellOutcome`` for every cell, in any order. ``job.share()`` makes
        corpora readable for other processes; a worker calls ``compute(job.context, group)`` for one of ``job.groups``.
        ``job.known(key=default, ...)`` returns the executor's options, and refuses others.
        ``device(asked, options)`` names the device of workers on other machines (``cpu``, ``cuda``).
        """

    @hookspec
    def register_analyses(self, register: Register) -> None:
        """``register(name, analysis, description="")``: analyses of a space of vectors.

        ``analysis(workspace, **options)`` returns what ``Session.analyze(name, **options)`` does. For the papers'
        tables, ``analysis.measure(workspace, asked, specs, seeds, protocol)`` stores a result for each encoder and
        returns their ``Outcome``; ``asked`` is a ``papers.targets.AskedAnalysis``.
        """

    @hookspec
    def register_grids(self, register: Register) -> None:
        """``register(name, plan, description="")``: grids, for ``mirrorbench run NAME``, or an ending of grid files.

        ``plan(name, workspace, backbones, limit, fetch, **given)`` returns a ``Plan``, most often from ``make_plan``.
        ``backbones`` (``--encoder``) and ``given`` (``tasks``, ``seeds``, ``corpus``, ``protocol``, ``baselines``)
        replace the grid's own values unless empty. Without ``fetch`` nothing is downloaded.
        """
