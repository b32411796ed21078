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
"""Mark a function of a plugin as the implementation of a hook.

The author of a plugin writes ``@hookimpl``, without parentheses, above a function that has the name of a hook, such as
``register_tasks`` or ``register_encoders``; the hooks and their arguments are listed in ``docs/plugins.md``. The
function takes one argument, which must be called ``register`` (``Register``), calls it once for each thing to register,
and returns nothing. In a plugin the functions stand at the top level of the module; an object with marked methods is a
plugin too.

mirrorbench finds the module by its entry point in the group ``mirrorbench``, by ``--plugin FILE.py``, or by
``Plugins.add``. It calls the marked functions when something registered is first looked up, and again after another
plugin was added. They should therefore only register, and leave the loading of models and data to what they register.

Raises:
    PluginError: when the plugin is loaded: no hook has the function's name, or its argument is not called
        ``register``. When the function is called: it raises an error, or returns something. An installed plugin is then
        skipped with a warning, unless ``MIRRORBENCH_STRICT_PLUGINS=1`` is set; a file given by ``--plugin`` is an
        error.

Example:
    A metric, here in a class so that it can be added without a module:

    >>> import numpy as np
    >>> from mirrorbench.plugin import hookimpl, load_plugins
    >>> def accuracy_at_half(scores, gold):
    ...     return float(((scores > 0.5) == (gold > 0.5)).mean())
    >>> class AccuracyPlugin:
    ...     @hookimpl
    ...     def register_metrics(self, register):
    ...         register("accuracy_at_half", accuracy_at_half, "share of right decisions at 0.5")
    >>> plugins = load_plugins(discover=False)
    >>> plugins.add(AccuracyPlugin(), "accuracy")
    >>> plugins.metrics["accuracy_at_half"](np.array([0.9, 0.2]), np.array([1, 1]))
    0.5
"""

Register = Callable[..., None]
"""The type of ``register``, the function that each hook receives; for annotations.

mirrorbench makes the function and passes it to the hook, which calls it once for each thing to register. Most hooks
have the form ``register(name, value, description="")``:

- ``name``: a text without spaces, commas and control characters, unique among the names of the hook.
- ``value``: what is registered; ``docs/plugins.md`` states its type for each hook.
- ``description``: one line for listings; by default empty.

``register_encoders``, ``register_augmentations``, ``register_renderers`` and ``register_executors`` have further
keyword arguments, which ``docs/plugins.md`` lists. ``register_tasks`` and ``register_corpora`` have the form
``register(value)``: the task or corpus states its name itself, and the path of a card registers all tasks or corpora of
the card.

Raises:
    PluginError: the name or description is not a suitable text, the value has the wrong type, or another plugin has
        registered the name. A hook should not catch it: mirrorbench adds the name of the plugin, and reports it.

Example:
    >>> from mirrorbench.plugin import GeneratedCorpus, Register, hookimpl, load_plugins
    >>> class CorporaPlugin:
    ...     @hookimpl
    ...     def register_corpora(self, register: Register) -> None:
    ...         for size in (10, 100):
    ...             texts = [f"number {n}" for n in range(size)]
    ...             register(GeneratedCorpus(f"numbers-{size}", f"{size} numbers", lambda texts=texts: texts))
    >>> plugins = load_plugins(discover=False)
    >>> plugins.add(CorporaPlugin(), "numbers")
    >>> [name for name in plugins.corpora.names() if name.startswith("numbers")]
    ['numbers-10', 'numbers-100']
"""


class HookSpecs:
    """The hooks. Each is called once, at the first lookup of a name.

    The first line of each states the arguments of ``register`` with their types; functions are written as
    ``(arguments) -> result``. The types are those of ``mirrorbench.plugin``; ``name`` and ``description`` are texts.
    """

    @hookspec
    def register_encoders(self, register: Register) -> None:
        """``register(name, open: (EncoderSpec, EncoderContext) -> Encoder, description="", keys: dict[str, type] = None)``.

        ``open`` returns an object with ``encode(inputs)``, a float array of shape (n, d), and ``fingerprint``, a text
        that changes whenever the vectors change. ``keys`` are the keys of its spec with their types, such as
        ``{"size": int}``; other keys are then refused. Without ``keys`` the encoder has to check its spec itself.
        """

    @hookspec
    def register_methods(self, register: Register) -> None:
        """``register(name, method: Method, description="")``: methods for backbones (``+mirror``).

        The method has a label, a recipe for each level, and a function that makes pairs of texts.
        """

    @hookspec
    def register_poolings(self, register: Register) -> None:
        """``register(name, pool: (Tensor, Tokens) -> Tensor, description="")``: poolings (``pooling=cls``).

        ``pool(states, tokens)`` makes float32 vectors (texts, dimensions) from the mean over the spec's layers
        (texts, width, dimensions). ``tokens`` has ``mask``, ``ids`` and ``tokenizer``; under a name that begins with
        ``target`` also ``target``, the weights of the target word's tokens.
        """

    @hookspec
    def register_losses(self, register: Register) -> None:
        """``register(name, loss: (Tensor, Tensor, float, Tensor, ...) -> Tensor | type[Objective], description="")``.

        ``loss(left, right, temperature, labels)`` returns a scalar tensor for the vectors of both views, shape (n,
        dimensions). Further arguments receive the recipe's values of their names. A loss with models, modules or a
        state of its own is a subclass of ``Objective``.
        """

    @hookspec
    def register_augmentations(self, register: Register) -> None:
        """``register(name, change: (str, AugmentationContext) -> str, on="text", description="", probability=False)``.

        The name is a spec key, its value is ``context.rate``; ``probability=True`` limits it to [0, 1).
        ``on="text"``: ``change(text, context) -> text``, where ``context`` has ``rng``, ``mask_token`` and
        ``protocol``.
        ``on="tokens"``: ``change(ids, context) -> ids``, where ``context`` has ``mask_id`` and ``special_ids``.
        ``on="model"``: a ``ModelAugmentation``, which changes the model itself.
        """

    @hookspec
    def register_parsers(self, register: Register) -> None:
        """``register(name, parse: (dict[str, Path], dict[str, Any]) -> list, description="")``: readers of data files.

        ``parse(files, options)`` gets paths by the names in the card, and the card's ``options``. It returns the
        items of the card's kind, or raises ``DataFormatError`` with file and line. ``Columns`` reads tables in this
        way.
        """

    @hookspec
    def register_task_kinds(self, register: Register) -> None:
        """``register(name, kind: type[TaskKind], description="")``: kinds of tasks.

        The class checks the items, names the texts to encode, and scores the vectors.
        """

    @hookspec
    def register_tasks(self, register: Register) -> None:
        """``register(task: Task | Card | Path)``: tasks.

        A path is that of a card (YAML).
        """

    @hookspec
    def register_readers(self, register: Register) -> None:
        """``register(name, read: (str, Path, dict[str, Value]) -> Task | None, description="")``: users' own data.

        ``read(name, path, options)`` returns a ``Task`` called ``name``, or ``None`` for data in another format. The
        path follows ``-t``, and ``options`` follow the path (``-t ./data:kind=triplets``).
        """

    @hookspec
    def register_corpora(self, register: Register) -> None:
        """``register(corpus: GeneratedCorpus | Card | Path)``: tuning corpora.

        A path is that of a card (YAML).
        """

    @hookspec
    def register_metrics(self, register: Register) -> None:
        """``register(name, metric: (ndarray, ndarray) -> float | None, description="")``: metrics.

        ``metric(scores, gold)`` gets two arrays of shape (items,), and returns ``None`` where it is undefined.
        """

    @hookspec
    def register_renderers(self, register: Register) -> None:
        """``register(name, render: (Table, ...) -> str, description="", endings: Sequence[str] = ())``.

        ``render(table)`` returns the table as text. Keyword-only arguments with a bool, a number or a text as default
        are options of the format (``--format NAME:percent=true``). ``endings`` (``.md``) select it by the name of the
        output.
        """

    @hookspec
    def register_papers(self, register: Register) -> None:
        """``register(name, folder: Path, description="")``: published tables as YAML files.

        Each YAML file of the folder is a table or figure, for ``mirrorbench paper name/FILE``;
        ``leaderboards/README.md`` lists the keys.
        """

    @hookspec
    def register_executors(self, register: Register) -> None:
        """``register(name, execute: (Job) -> Iterator[CellOutcome], description="", device: (str, dict) -> str = None)``.

        ``execute(job)`` yields a ``CellOutcome`` for every cell, in any order. ``job.share()`` makes corpora readable
        for other processes; a worker calls ``compute(job.context, group)`` for one of ``job.groups``.
        ``job.known(key=default, ...)`` returns the executor's options, and refuses others. ``device(asked, options)``
        names the device of workers on other machines (``cpu``, ``cuda``).
        """

    @hookspec
    def register_grids(self, register: Register) -> None:
        """``register(name, plan: (str, Workspace, list[EncoderSpec], int, bool, ...) -> Plan, description="")``: grids.

        ``plan(name, workspace, backbones, limit, fetch, **given)`` makes the plan of ``mirrorbench run NAME``, most
        often by ``make_plan``. ``backbones`` (``--encoder``) and ``given`` (``tasks``, ``seeds``, ``corpus``,
        ``protocol``, ``baselines``) replace the grid's own values unless empty. Without ``fetch`` nothing is
        downloaded. A name may be an ending of grid files.
        """

    @hookspec
    def register_analyses(self, register: Register) -> None:
        """``register(name, analysis: (Workspace, ...) -> Any, description="")``: analyses of vectors.

        ``analysis(workspace, **options)`` returns what ``Session.analyze(name, **options)`` does. For the papers'
        tables, ``analysis.measure(workspace, asked, specs, seeds, protocol)`` stores a result for each encoder and
        returns their ``Outcome``.
        """

    @hookspec
    def register_tables(self, register: Register) -> None:
        """``register(name, tables: (Plugins) -> dict[str, Layout], description="")``: published tables from code.

        The tables are for ``leaderboard --table``. Under the name ``papers`` the object also has the methods
        ``paper(workspace, table, encoder, protocol)``, ``papers(workspace, paper, encoder, protocol)`` and
        ``run_paper(workspace, table, encoder, seeds, protocol)`` of ``Session``.
        """

    @hookspec
    def register_tools(self, register: Register) -> None:
        """``register("doctor", examine: (Workspace) -> Any, description="")``: the command doctor.

        It is ``Session.doctor``.
        """
