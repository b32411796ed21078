"""The errors that users may see; the command line prints them without a traceback. Any other exception is a bug."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

from mirrorbench.core.quoting import shown

_CREDENTIALS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/?#\s]*@", re.IGNORECASE)
MAX_LISTED_NAMES = 30
"""Most names that an error lists itself, where a command can list them instead."""


class Lack(NamedTuple):
    """A missing data set or model (``category``: ``data``, ``models``), and the hosts that did not answer for it."""

    category: str
    name: str
    hosts: tuple[str, ...] = ()


def without_credentials(text: str) -> str:
    """Remove user and password from the addresses in a text, such as the address of a mirror of the hub."""
    return _CREDENTIALS.sub(r"\1", text)


_OPTION = re.compile(
    r"(?<![\w-])--(?P<name>[a-z][a-z-]*)"
    r"(?: (?P<value>[A-Z][A-Z_]*\b|\.?\d[\w.]*|(?:auto|cpu|cuda(?::\d+)?|mps|fp32|bf16|fp16|tiny|all|none)\b|\./\S+))?"
)
_COMMAND = re.compile(r"\b(?:mirrorbench [a-z]+|pip install) ")
_FLAGS = frozenset(
    [
        "offline",
        "force",
        "merge",
        "baselines",
        "intervals",
        "ties",
        "deterministic",
        "allow-mixed",
        "without-overlap",
        "words-in-context",
    ]
)
_ARGUMENTS = {"encoder": "encoders", "span-columns": "spans", "log": "log=True"}
_wording = {"options": False}
"""``options``: whether errors name options of the command line; otherwise they name arguments of Python functions."""


@contextmanager
def naming_options() -> Iterator[None]:
    """Let errors name options of the command line inside the block."""
    before = _wording["options"]
    _wording["options"] = True
    try:
        yield
    finally:
        _wording["options"] = before


def as_arguments(text: str) -> str:
    """Return a text with the options of the command line replaced by arguments of the Python functions.

    ``Use --device cpu.`` becomes ``Use device='cpu'.``. A command such as ``mirrorbench list tasks``, and the rest of
    its line, stay unchanged.
    """
    lines = []
    for line in text.split("\n"):
        command = _COMMAND.search(line)
        end = command.start() if command else len(line)
        lines.append(_OPTION.sub(_argument, line[:end]) + line[end:])
    return "\n".join(lines)


def _argument(option: re.Match[str]) -> str:
    """Return a matched option, with its value if it has one, as an argument."""
    name = option["name"]
    value = option["value"]
    argument = _ARGUMENTS.get(name, name.replace("-", "_"))
    if name in _FLAGS:
        # A flag has no value: the next word belongs to the sentence.
        return f"{argument}=True {value}" if value else f"{argument}=True"
    if value is None:
        return argument
    is_text = value[0].islower() or value.startswith("./")
    return f"{argument}={value!r}" if is_text else f"{argument}={value}"


class MirrorbenchError(Exception):
    """Base of all errors caused by input, data or environment rather than by a bug.

    mirrorbench and plugins raise its subclasses, which take the same arguments; catch this class to handle all of them.
    An error that ends a command is printed as ``Error: MESSAGE``, with the hint on the next line and without a
    traceback (``MIRRORBENCH_DEBUG=1`` shows it). The exit code is 2 for ``UsageError`` and ``PluginError``, 1 for the
    others. In a run, an error of one encoder on one task does not end the command: the others go on, the message is
    listed at the end and written to ``failures.log`` in the folder of results, and the exit code is 1. ``run`` and
    ``evaluate`` of Python then give a ``FailureWarning``, and list it in ``failures`` of what they return.

    Args:
        message: the request and its problem, in one or two sentences.
        hint: remedy; may be empty or have several lines. Name options as on the command line (``--device cpu``): in
            Python, ``str(error)`` shows them as arguments (``device='cpu'``).
        lacks: the missing data sets and models that caused it; filled by mirrorbench, which reports errors with the
            same cause together.

    Attributes:
        message: the argument without user names and passwords in addresses.
        hint: the argument, likewise.
        lacks: the argument.

    Example:
        >>> from mirrorbench.plugin import MirrorbenchError, parse_spec
        >>> try:
        ...     parse_spec("roberta+mirror:dropout")
        ... except MirrorbenchError as error:
        ...     print(error.message)
        cannot read the encoder spec 'roberta+mirror:dropout'
        >>> print(MirrorbenchError("the GPU is too small", "Use --device cpu."))
        the GPU is too small
        Use device='cpu'.
    """

    def __init__(self, message: str, hint: str = "", lacks: tuple[Lack, ...] = ()) -> None:
        super().__init__(message)
        self.message = without_credentials(message)
        self.hint = without_credentials(hint)
        self.lacks = lacks

    def __str__(self) -> str:
        text = f"{self.message}\n{self.hint}" if self.hint else self.message
        return text if _wording["options"] else as_arguments(text)


_Error = TypeVar("_Error", bound=MirrorbenchError)


class UsageError(MirrorbenchError):
    """The request itself is malformed: an unknown name, a bad spec, an impossible option.

    mirrorbench raises it for specs, options and arguments that it cannot use. A plugin raises it where the user has to
    correct what was typed, for example for a value of a key of its encoder or executor. ``unknown_name`` makes the
    error for an unknown name.

    The command ends with the message, the hint and exit code 2. This includes a run whose encoder was named by the user
    and is refused while the run is planned, as when its function of ``register_encoders`` raises the error. Raised
    later, while texts are encoded or scored, it is a failure of the encoder on that task, with exit code 1.

    Args:
        message: what was asked for, and why it is impossible.
        hint: what to write instead; by default empty.

    Example:
        >>> from mirrorbench.plugin import UsageError, parse_spec
        >>> def n_letters(spec):
        ...     size = spec.get("size", 26)
        ...     if size not in (26, 52):
        ...         raise UsageError(f"{spec.backbone} has no size {size}", "Write size=26 or size=52.")
        ...     return size
        >>> n_letters(parse_spec("letters:size=52"))
        52
        >>> try:
        ...     n_letters(parse_spec("letters:size=7"))
        ... except UsageError as error:
        ...     print(error)
        letters has no size 7
        Write size=26 or size=52.
    """


class UnknownNameError(UsageError):
    """A name is not registered; the hint lists the nearest ones."""


class PluginError(MirrorbenchError):
    """A plugin cannot be loaded, registers something invalid, or returns what its hook does not allow.

    mirrorbench raises it, and names the plugin and, where it can, file and line: for an unknown hook, a name that is
    registered twice, an object of the wrong type, an encoder without ``encode`` or ``fingerprint``, or ``Scores`` with
    equal ids. A plugin raises it for a mistake in the code that uses it, such as the arguments of its own base class.

    An error of a file given by ``--plugin`` while it is loaded ends the command with exit code 2. An installed plugin
    is skipped with a warning instead, unless ``MIRRORBENCH_STRICT_PLUGINS=1`` is set. In a run, what a plugin's task or
    encoder returns wrongly is a failure of that encoder on that task, with exit code 1.

    Args:
        message: the plugin and what is wrong with it.
        hint: what its author has to change; by default empty.

    Example:
        >>> from mirrorbench import hookimpl
        >>> from mirrorbench.plugin import PluginError, load_plugins
        >>> class MistypedPlugin:
        ...     @hookimpl
        ...     def register_task(self, register):
        ...         pass
        >>> try:
        ...     load_plugins(discover=False).add(MistypedPlugin(), "mistyped")
        ... except PluginError as error:
        ...     print(error.hint)
        Did you mean register_tasks?
    """


class DuplicateNameError(PluginError):
    """Two plugins register the same name."""


class DataUnavailableError(MirrorbenchError):
    """A data file is missing and cannot be fetched.

    mirrorbench raises it for files of cards that are not in the data directory and that no source delivers, or that may
    not be fetched (``--offline``); message and hint name sources, licence and ``mirrorbench data import``. A plugin
    raises it in ``fetch`` or ``load`` of a ``Task``, or in the function of a ``GeneratedCorpus``, if the data have to
    be obtained in another way, or need a package that is missing (``not_installed``).

    In a run, the encoders fail on that task, other tasks go on, and the exit code is 1; so it is for a command that
    ends with the error.

    Args:
        message: the data and why they are missing.
        hint: how to get them; by default empty.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import DataUnavailableError
        >>> def read_ratings(folder):
        ...     path = folder / "ratings.tsv"
        ...     if not path.is_file():
        ...         hint = "Its authors send the file on request: put it there."
        ...         raise DataUnavailableError(f"there is no file {path}", hint)
        ...     return path.read_text(encoding="utf-8").splitlines()
        >>> try:
        ...     read_ratings(Path("ratings"))
        ... except DataUnavailableError as error:
        ...     print(error.message)
        there is no file ratings/ratings.tsv
    """


class DataIntegrityError(MirrorbenchError):
    """A data file exists, or was downloaded, but it is not the file that its card describes."""


class DataFormatError(MirrorbenchError):
    r"""The content of a file does not follow its format; the message names the file and, if known, the line.

    mirrorbench raises it for cards, data files, grids and items that it cannot read. A plugin raises it in a parser
    (``register_parsers``), a reader of a user's own data (``register_readers``), and in ``load`` of a ``Task`` or
    ``check`` of a ``TaskKind`` for unsuitable items.

    In a run, all encoders fail on that task with this message, other tasks go on, and the exit code is 1; so it is for
    a command that ends with the error.

    Args:
        message: file, line (from 1) and problem.
        hint: the right format; by default empty.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import DataFormatError, read_lines
        >>> def parse_questions(files, options):
        ...     items = []
        ...     for path in files.values():
        ...         for number, line in enumerate(read_lines(path), start=1):
        ...             if "\t" not in line:
        ...                 raise DataFormatError(f"{path}, line {number}: no tab", "Write QUESTION<TAB>ANSWER.")
        ...             items.append(tuple(line.split("\t", 1)))
        ...     return items
        >>> _ = Path("faq.tsv").write_text("When do you open?\tAt nine.\nDo you sell bread?\n")
        >>> try:
        ...     parse_questions({"faq.tsv": Path("faq.tsv")}, {})
        ... except DataFormatError as error:
        ...     print(error)
        faq.tsv, line 2: no tab
        Write QUESTION<TAB>ANSWER.
    """


class ModelUnavailableError(MirrorbenchError):
    """The files of a model are missing, cannot be read, or cannot be opened safely.

    mirrorbench raises it for a backbone that is neither on this machine nor reachable, and for incomplete or
    unsupported model files. A plugin raises it in its function of ``register_encoders``, or when its encoder first
    needs the weights, if these or the package that reads them are missing (``not_installed``).

    In a run, the encoder fails on all tasks, other encoders go on, and the exit code is 1; so it is for a command that
    ends with the error. ``mirrorbench.load`` raises it.

    Args:
        message: the model and what is missing.
        hint: how to get it; by default empty.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import ModelUnavailableError, parse_spec
        >>> def open_glove(spec, context):
        ...     path = Path(str(spec.get("path", "glove.txt")))
        ...     if not path.is_file():
        ...         raise ModelUnavailableError(f"there is no file of vectors at {path}", "Write path=FILE.")
        ...     ...  # return an encoder
        >>> try:
        ...     open_glove(parse_spec("glove:path=vectors.txt"), None)
        ... except ModelUnavailableError as error:
        ...     print(error.message)
        there is no file of vectors at vectors.txt
    """


class TuningError(MirrorbenchError):
    """A tuning cannot start or failed: too few texts, a loss that is not finite.

    mirrorbench raises it before and during the tuning of a backbone. A plugin raises it in the function ``pairs`` of a
    ``Method``, in an ``Objective`` or in a ``ModelAugmentation``, if corpus or model are unsuitable.

    In a run, the encoder fails on the tasks for which it would be tuned in this way, other encoders go on, and the exit
    code is 1. ``mirrorbench tune`` ends with exit code 1; ``mirrorbench.tune`` and ``load`` raise the error.

    Args:
        message: what prevents the tuning.
        hint: the change of spec or corpus that may help; by default empty.

    Example:
        >>> from mirrorbench.plugin import TuningError
        >>> def question_answer_pairs(texts, maker):
        ...     for text in texts:
        ...         if "?" not in text:
        ...             raise TuningError(f"the corpus line {text!r} has no question", "Write QUESTION? ANSWER.")
        ...     questions, answers = zip(*(text.split("?", 1) for text in texts))
        ...     return maker.pairs(questions, answers)
        >>> try:
        ...     question_answer_pairs(["At nine."], None)
        ... except TuningError as error:
        ...     print(error.message)
        the corpus line 'At nine.' has no question
    """


class EncodingError(MirrorbenchError):
    """An encoder did not return one finite vector for each text.

    mirrorbench raises it, with the name of the encoder, for an array of another shape than (texts, dimensions), for
    values that are no numbers, NaN or infinite, and for vectors whose dimensions differ from those cached under the
    same fingerprint. A plugin raises it in ``encode`` for inputs that its encoder cannot read.

    In a run, the encoder fails on the tasks that contain the texts, other tasks go on, and the exit code is 1.
    ``encode`` of what ``mirrorbench.load`` returns raises it.

    Args:
        message: the encoder and what is wrong with the vectors.
        hint: remedy; by default empty.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.plugin import EncodingError, TextEncoder
        >>> class Logarithms:
        ...     fingerprint = "logarithms-1"
        ...     def encode(self, inputs):
        ...         if any(not item.text for item in inputs):
        ...             raise EncodingError("logarithms has no vector of an empty text")
        ...         return np.array([[np.log(len(item.text)), np.nan] for item in inputs])
        >>> for text in ("", "a cat"):
        ...     try:
        ...         TextEncoder(Logarithms()).encode([text])
        ...     except EncodingError as error:
        ...         print(error)
        logarithms has no vector of an empty text
        the encoder returned NaN or infinite vectors for 1 of 1 texts
    """


class UnreadableTextError(EncodingError):
    """An encoder cannot read a text.

    Args:
        text: the text; a caller that knows its file can find its line.
        problem: the reason, without the text.
        hint: remedy.
        place: file and line; by default the text itself is quoted.
    """

    def __init__(self, text: str, problem: str, hint: str = "", place: str = "") -> None:
        super().__init__(f"{place or shown(text)}: {problem}", hint)
        self.text = text
        self.problem = problem

    def at(self, place: str) -> UnreadableTextError:
        """Return the error with a file and line instead of the quoted text."""
        return UnreadableTextError(self.text, self.problem, self.hint, place)


class StorageError(MirrorbenchError):
    r"""A result, model or cache entry cannot be written: no space left, no permission, a file in the way.

    mirrorbench raises it for its own files; the message names path and reason. It also reports in this way an encoder
    whose worker processes died repeatedly. A plugin raises it for files that it writes itself, such as exports of a
    command.

    In a run, the encoder fails on that task and the exit code is 1; so it is for a command that ends with the error.
    The same command computes only what is not stored yet.

    Args:
        message: the file and the reason.
        hint: remedy; by default empty.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import StorageError
        >>> def export(lines, path):
        ...     try:
        ...         path.write_text("\n".join(lines), encoding="utf-8")
        ...     except OSError as error:
        ...         problem = f"{path} cannot be written: {error.strerror}"
        ...         raise StorageError(problem, "Name another file by --output.") from error
        >>> try:
        ...     export(["a cat"], Path("missing") / "texts.txt")
        ... except StorageError as error:
        ...     print(error)
        missing/texts.txt cannot be written: No such file or directory
        Name another file by output.
    """


class DeviceMemoryError(MirrorbenchError):
    """A device has too little memory even for the smallest part of some work; another device may have enough."""


READ_BACK_HINT = (
    "This is a bug in mirrorbench or in a library: report it with the output of mirrorbench doctor."
)


class ReadBackError(MirrorbenchError):
    """A model that was written differs when it is read back."""


class DeviceError(MirrorbenchError):
    """A GPU failed, and fails in every later call of this process; a new process may be able to continue.

    mirrorbench raises it when an error of torch means that this process has lost its GPU. ``compute`` and ``failed``
    raise it in workers of executors: a worker must then end its process, and the executor give the group to another
    one. Other plugins need not raise it, and must not catch it and go on.

    On the command line without worker processes, the run ends with the message and exit code 1; stored results are
    kept, and the same command continues.

    Args:
        message: the device and the reason.
        hint: remedy; by default empty.

    Example:
        The function of a worker, which an executor starts in another process:

        >>> import os
        >>> import sys
        >>> from mirrorbench.plugin import DeviceError, compute
        >>> def compute_or_leave(context, group):
        ...     try:
        ...         return compute(context, group)
        ...     except DeviceError as error:
        ...         print(error, file=sys.stderr, flush=True)
        ...         os._exit(1)
    """


def changed_while_read(name: str) -> DataFormatError:
    """Return the error for data that changed between planning and scoring."""
    return DataFormatError(f"{name} changed while it was read", "Run it again.")


def not_installed(
    error: type[_Error],
    needs: str,
    package: str,
    extra: str = "",
    instead: str = "",
    requirement: str = "",
) -> _Error:
    """Return the error for a missing package that an extra of mirrorbench installs; the caller raises it.

    A plugin calls it where the import of an optional package fails.

    Args:
        error: the class of the error: ``UsageError`` for a feature that the user asked for, ``ModelUnavailableError``
            or ``DataUnavailableError`` for a package that a model or data need.
        needs: the beginning of the message, with its verb (``the loss needs``).
        package: the package's name on the index.
        extra: the extra of mirrorbench that installs it, as in ``pip install 'mirrorbench[extra]'``.
        instead: the end of the hint, such as an alternative; by default empty.
        requirement: what to install instead of an extra of mirrorbench, such as ``my-plugin[frames]``.

    Returns:
        An error of the class ``error``.

    Example:
        >>> from mirrorbench.plugin import UsageError, not_installed
        >>> def import_module_of_frames():
        ...     try:
        ...         import no_such_pandas
        ...     except ImportError as error:
        ...         needs = "the format frames needs"
        ...         raise not_installed(UsageError, needs, "pandas", requirement="my-plugin[frames]") from error
        >>> try:
        ...     import_module_of_frames()
        ... except UsageError as error:
        ...     print(error)
        the format frames needs the package pandas, which is not installed
        Install it: pip install 'my-plugin[frames]'
    """
    requirement = requirement or f"mirrorbench[{extra}]"
    hint = f"Install it: pip install '{requirement}'{instead}"
    return error(f"{needs} the package {package}, which is not installed", hint)


def unknown_name(noun: str, name: str, known: list[str], listing: str = "") -> UnknownNameError:
    """Return the error for a name that is not in ``known``; the caller raises it.

    A plugin calls it for a name that a user typed: an option, a subset, a model. Its hint has the nearest names, or
    else the command ``listing`` if there are more than 30 known names, or else all of them.

    Args:
        noun: what the name stands for, in the singular (``option of letters``).
        name: the name as typed.
        known: all names that are allowed.
        listing: a command that lists the names; by default the hint lists them all.

    Returns:
        An error of a subclass of ``UsageError``, with exit code 2.

    Example:
        >>> from mirrorbench.plugin import UsageError, unknown_name
        >>> alphabets = {"latin": 26, "greek": 24}
        >>> def size_of(alphabet):
        ...     if alphabet not in alphabets:
        ...         raise unknown_name("alphabet", alphabet, list(alphabets))
        ...     return alphabets[alphabet]
        >>> try:
        ...     size_of("latinn")
        ... except UsageError as error:
        ...     print(error)
        unknown alphabet 'latinn'
        Did you mean latin?
    """
    nearest = get_close_matches(str(name), known, n=3, cutoff=0.5)
    if nearest:
        hint = f"Did you mean {' or '.join(nearest)}?"
    elif listing and len(known) > MAX_LISTED_NAMES:
        hint = f"The {len(known):,} known names are listed by: {listing}"
    else:
        hint = f"Known: {', '.join(known) or 'none'}"
    disabled = os.environ.get("MIRRORBENCH_DISABLE_PLUGINS")
    if disabled:
        hint += f" (MIRRORBENCH_DISABLE_PLUGINS={disabled} disables plugins)"
    return UnknownNameError(f"unknown {noun} {name!r}", hint)
