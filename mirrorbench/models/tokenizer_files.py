"""The tokenizer that the files of a directory describe, and its comparison with the one that transformers opens.

Where ``tokenizer.json`` exists, it decides: it holds normaliser, pre-tokenizer, vocabulary and special tokens. From version 5
on, transformers builds the tokenizer of the class that a configuration names or implies, which may ignore that file. What
``tokenizer_config.json`` states beside it (case, accents, Chinese characters, the space before a text, tokens at the ends of
a text) is applied to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import StorageError
from mirrorbench.core.identity import digest
from mirrorbench.models.model_files import json_object
from mirrorbench.storage.checksums import content
from mirrorbench.storage.files import cache_root, writing

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
FILES = (TOKENIZER, SETTINGS, "special_tokens_map.json", "added_tokens.json", "config.json")
"""Files that decide which tokens a text has, where ``tokenizer.json`` is one of them."""

PROBES = (
    "",
    " ",
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "Tokenization of UPPER CASE, Title Case and camelCase words",
    "don't can't won't it's we're I'd they'll",
    " a space before the text",
    "a space after the text ",
    "two  spaces   three    four",
    "tabs\tand\ttabs",
    "lines\nand\r\nlines\n",
    "non\u00a0breaking\u2009thin\u3000wide\u200bzero width spaces",
    "control\u0001characters\u0007and\u007fdelete",
    "soft\u00adhyphen and \ufeffmarks \u200fof direction\u202e",
    "0 1 23 456 7890 3.14159 1,234,567 -5 10^9 1e-7",
    "\u0661\u0662\u0663 \u0967\u0968\u0969 \uff11\uff12\uff13 \u2160\u2161",
    "caf\u00e9 na\u00efve fa\u00e7ade \u00fcber \u00c5ngstr\u00f6m \u0141\u00f3d\u017a",
    "cafe\u0301 nai\u0308ve: combining accents",
    "STRASSE stra\u00dfe \u0130stanbul \u0131\u015f\u0131k",
    "\ufb01ne \ufb02ow \u2075 \u00bd \u2122 \uff21\uff22\uff23 \u212b",
    "\u041c\u043e\u0441\u043a\u0432\u0430 \u0438 \u0421\u0430\u043d\u043a\u0442-\u041f\u0435\u0442\u0435\u0440\u0431\u0443\u0440\u0433, \u0451\u043b\u043a\u0430",
    "\u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2 \u03ba\u03b1\u03b9 \u0399\u03b8\u03ac\u03ba\u03b7",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u05d1\u05bc\u05b0",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u09b9\u09cd\u09af\u09be\u09b2\u09cb \u09ac\u09bf\u09b6\u09cd\u09ac",
    "\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd \u0c28\u0c2e\u0c38\u0c4d\u0c15\u0c3e\u0c30\u0c02",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 \u1230\u120b\u121d",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u6211\u559c\u6b22\u673a\u5668\u5b66\u4e60",
    "\u6771\u4eac\u30bf\u30ef\u30fc\u306b\u884c\u304d\u307e\u3057\u305f",
    "\uff76\uff9e\uff77\uff9e \u30ac\u30ae",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 \u1112\u1161\u11ab",
    "Xin ch\u00e0o th\u1ebf gi\u1edbi, Vi\u1ec7t Nam",
    "mixed \u4e2d\u6587 and English \u6587\u5b57 together",
    "\U0001f600 \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1e9\U0001f1ea",
    "\U00020000 \U0001d400\U0001d401 \u20ac \u00a3 \u00a5",
    "https://example.org/path?q=1&r=%20#top user@example.org @name #tag",
    "def f(x):\n    return x ** 2  # comment",
    "a/b\\c|d~e`f^g_h {i} [j] (k) <l> \"m\" 'n' *o* =p=",
    "\u201cquotes\u201d \u2018single\u2019 \u00abguillemets\u00bb \u2014 dashes \u2013 \u2026",
    "hyphen-ated under_score semi;colon co:lon",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "tumor necrosis factor-\u03b1 (TNF-\u03b1) 5-HT2A IL-6 p53",
    "[CLS] special [SEP] tokens [MASK] inside [PAD] a [UNK] text",
    "<s> special </s> tokens <mask> inside <pad> an <unk> text",
    "<|endoftext|> and <|im_start|>user<|im_end|> <bos> <eos> <start_of_turn>",
    "##ing \u2581word \u0120token \u010a @@ </w>",
    "query: what is it? passage: it is this",
)
"""Texts whose token ids show whether two tokenizers are equal: scripts, case, accents, spaces, special tokens."""

FILE_TOKENIZER_NOTE = "tokens are read as tokenizer.json describes them; the class that transformers chooses reads others"
"""Note for results of models whose tokenizer is read from its file instead of by transformers' class."""
MOST_ADDED = 50
"""Number of added tokens that are tried inside texts."""


def settings_of(folder: Path) -> dict[str, Any]:
    """Return what ``tokenizer_config.json`` states; nothing without that file."""
    path = folder / SETTINGS
    return json_object(path) if path.is_file() else {}


def described_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer that the files of a folder with ``tokenizer.json`` describe, without padding and truncation.

    Apply to ``tokenizer.json`` what ``tokenizer_config.json`` states about case, accents and Chinese characters (if the
    file has BERT's normaliser) and about a space before the text (if it has byte-level tokens). Add the tokens that it
    lists, and the tokens at the ends of a text that it asks for and ``tokenizer.json`` does not add. Leave out dropout of
    merges, which is for pretraining.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if getattr(tokenizer.model, "dropout", None):
        tokenizer.model.dropout = None
    settings = settings_of(folder)
    _apply_to_normalizer(tokenizer, settings)
    _apply_to_pre_tokenizer(tokenizer, settings)
    _add_listed_tokens(tokenizer, folder, settings)
    _add_required_ends(tokenizer, folder, settings)
    return tokenizer


def _apply_to_normalizer(tokenizer: Tokenizer, settings: Mapping[str, Any]) -> None:
    """Apply the stated options on case, accents and Chinese characters to BERT's normaliser."""
    stated = {
        "lowercase": settings.get("do_lower_case"),
        "strip_accents": settings.get("strip_accents"),
        "handle_chinese_chars": settings.get("tokenize_chinese_chars"),
    }
    options = {name: value for name, value in stated.items() if isinstance(value, bool)}
    state = _state(tokenizer.normalizer)
    for part in _parts(state, "normalizers"):
        if part.get("type") == "BertNormalizer":
            part.update(options)
    if state != _state(tokenizer.normalizer):
        tokenizer.normalizer = _component("normalizer", state)


def _apply_to_pre_tokenizer(tokenizer: Tokenizer, settings: Mapping[str, Any]) -> None:
    """Apply the stated option on a space before the text to byte-level tokens."""
    space = settings.get("add_prefix_space")
    state = _state(tokenizer.pre_tokenizer)
    for part in _parts(state, "pretokenizers"):
        if part.get("type") == "ByteLevel" and isinstance(space, bool):
            part["add_prefix_space"] = space
    if state != _state(tokenizer.pre_tokenizer):
        tokenizer.pre_tokenizer = _component("pre_tokenizer", state)


def _add_listed_tokens(tokenizer: Tokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """Add to a tokenizer the tokens that other files have in addition to ``tokenizer.json``.

    First those of the list in ``tokenizer_config.json`` (``settings``), which states their flags, or else those of
    ``added_tokens.json``; then the special tokens that neither the list nor the vocabulary has.
    """
    from tokenizers import AddedToken

    special_names = [*special_tokens(folder, settings).values(), *_extra_tokens(folder, settings)]
    tokens = []
    entries = settings.get("added_tokens_decoder")
    path = folder / "added_tokens.json"
    if entries is not None:
        for index in sorted(entries or {}, key=int):
            tokens.append(_added_token(entries[index]))
    elif path.is_file():
        ids = json_object(path)
        for name in sorted(ids, key=lambda name: int(ids[name])):
            is_special = name in special_names
            tokens.append(AddedToken(name, special=is_special, normalized=not is_special))
    listed_names = {token.content for token in tokens}
    for name in dict.fromkeys(special_names):
        if name not in listed_names and tokenizer.token_to_id(name) is None:
            tokens.append(AddedToken(name, special=True, normalized=False))
    tokenizer.add_tokens(tokens)


def _added_token(entry: Mapping[str, Any]) -> AddedToken:
    """Return the token of an entry of ``added_tokens_decoder``, with the flags that it states."""
    from tokenizers import AddedToken

    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    flags = {name: bool(entry[name]) for name in names if name in entry}
    return AddedToken(entry["content"], **flags)


_SPECIAL = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


def special_tokens(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens that the files of a folder name, by their roles (``eos_token``)."""
    stated = _stated_tokens(folder, settings)
    tokens = {role: _name(stated.get(role)) for role in _SPECIAL}
    return {role: name for role, name in tokens.items() if name}


def _extra_tokens(folder: Path, settings: Mapping[str, Any]) -> list[str]:
    """Return the special tokens that files state without one of the usual roles."""
    stated = _stated_tokens(folder, settings)
    names = []
    for key in ("additional_special_tokens", "extra_special_tokens"):
        tokens = stated.get(key) or ()
        if isinstance(tokens, dict):
            tokens = tokens.values()
        names += [_name(token) for token in tokens]
    return [name for name in names if name]


def _stated_tokens(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of ``special_tokens_map.json`` and of the settings, which have precedence."""
    path = folder / "special_tokens_map.json"
    stated = json_object(path) if path.is_file() else {}
    return {**stated, **settings}


def _name(token: Any) -> str:
    """Return the text of a token, which files state alone or together with flags; empty for none."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else ""


def _add_required_ends(tokenizer: Tokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """Let a tokenizer add the tokens that ``add_bos_token`` and ``add_eos_token`` require at the ends of each text.

    Nothing changes if it already adds them.
    """
    # Find the ends that are required and not added yet.
    tokens = special_tokens(folder, settings)
    ids = tokenizer.encode("a").ids
    missing_ends: dict[str, int] = {}
    for role, ids_at_end in (("bos_token", ids[:1]), ("eos_token", ids[-1:])):
        if settings.get(f"add_{role}") is not True or role not in tokens:
            continue
        index = tokenizer.token_to_id(tokens[role])
        if index is not None and ids_at_end != [index]:
            missing_ends[role] = index
    if not missing_ends:
        return
    # Add them to each template of the post-processor. The templates are parts of `state`, which changes with them.
    state = _state(tokenizer.post_processor)
    templates = [
        part for part in _parts(state, "processors") if part.get("type") == "TemplateProcessing"
    ]
    if not templates:
        # Without a template, append one that holds only the text to the post-processor, or make it the post-processor.
        first = {"Sequence": {"id": "A", "type_id": 0}}
        second = {"Sequence": {"id": "B", "type_id": 1}}
        template: dict[str, Any] = {
            "type": "TemplateProcessing",
            "single": [first],
            "pair": [first, second],
            "special_tokens": {},
        }
        templates = [template]
        if state:
            state = {"type": "Sequence", "processors": [state, template]}
        else:
            state = template
    for template in templates:
        for role, index in missing_ends.items():
            _add_end_to_template(template, role, tokens[role], index)
    tokenizer.post_processor = _component("post_processor", state)


def _add_end_to_template(template: dict[str, Any], role: str, token: str, index: int) -> None:
    """Change the description of a template: add a token at the beginning (``bos_token``) or end of each text."""
    template["special_tokens"][token] = {"id": token, "ids": [index], "tokens": [token]}
    for name in ("single", "pair"):
        pieces = []
        for piece in template[name]:
            type_id = next(iter(piece.values()))["type_id"]
            end = {"SpecialToken": {"id": token, "type_id": type_id}}
            if "Sequence" not in piece:
                pieces.append(piece)
            elif role == "bos_token":
                pieces += [end, piece]
            else:
                pieces += [piece, end]
        template[name] = pieces


def _state(component: Any) -> Any:
    """Return the description of a normaliser, pre-tokenizer or post-processor; ``None`` for none."""
    if component is None:
        return None
    return json.loads(component.__getstate__())


def _component(kind: str, state: Any) -> Any:
    """Return the normaliser, pre-tokenizer or post-processor (``kind``) that a JSON object describes."""
    from tokenizers import Tokenizer

    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {}, "unk_token": ""},
        kind: state,
    }
    return getattr(Tokenizer.from_str(json.dumps(described)), kind)


def _parts(component: Any, key: str) -> Iterator[dict[str, Any]]:
    """Yield a description of a component, or those of the components of a sequence, which it lists under ``key``."""
    if not isinstance(component, dict):
        return
    if component.get("type") == "Sequence":
        for part in component.get(key, ()):
            yield from _parts(part, key)
    else:
        yield component


def same_tokens(opened: Tokenizer, described: Tokenizer) -> bool:
    """Return whether two tokenizers have equal options, and give ``PROBES`` and texts around added tokens equal ids.

    The options compared are those that affect single words only, which no list of texts can cover.
    """
    if _options(opened) != _options(described):
        return False
    added_tokens = {token.content for token in described.get_added_tokens_decoder().values()}
    texts = list(PROBES)
    for token in sorted(added_tokens)[:MOST_ADDED]:
        texts.append(f"before {token} after{token}")
    ids_of_opened = [encoding.ids for encoding in opened.encode_batch(texts)]
    ids_of_described = [encoding.ids for encoding in described.encode_batch(texts)]
    return ids_of_opened == ids_of_described


def _options(tokenizer: Tokenizer) -> tuple[Any, ...]:
    """Return the options that affect single words only: replacements of the normaliser, and options of the model."""
    options: list[Any] = []
    for part in _parts(_state(tokenizer.normalizer), "normalizers"):
        if part.get("type") == "Replace":
            options.append(json.dumps(part, sort_keys=True))
    for name in ("dropout", "ignore_merges", "max_input_chars_per_word"):
        options.append(getattr(tokenizer.model, name, None) or None)
    return tuple(options)


COMPARISON_VERSION = 2
"""Version of the comparison, part of cache keys; raised when the comparison changes."""
_remembered: dict[str, bool] = {}
"""Results in this process, by ``comparison_key``."""


def comparison_key(folder: Path) -> str:
    """Return the digest of all that decides the result of a comparison: tokenizer files and versions."""
    files = [(name, folder / name) for name in FILES if (folder / name).is_file()]
    libraries = {name: version(name) for name in ("tokenizers", "transformers")}
    return digest({"tokenizer": content(files), "reading": COMPARISON_VERSION, **libraries})


def remembered_comparison(folder: Path, compare: Callable[[], bool]) -> bool:
    """Return the result of ``compare`` for the tokenizer files of a folder, from the cache if it is there.

    A cache that cannot be written is not an error; a damaged entry is replaced.
    """
    key = comparison_key(folder)
    if key not in _remembered:
        path = cache_root() / "traits" / f"{key}.json"
        reads_file = _stored_comparison(path)
        if reads_file is None:
            reads_file = compare()
            # The checksum shows damaged entries.
            entry = {"reads_file": reads_file, "checksum": digest({key: reads_file})}
            with suppress(StorageError), writing(path, cache_root(), flush=False) as sink:
                sink.write(json.dumps(entry).encode())
        _remembered[key] = reads_file
    return _remembered[key]


def _stored_comparison(path: Path) -> bool | None:
    """Return the result in an entry of the cache; ``None`` if it is missing or damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        entry = json.loads(path.read_bytes())
        if entry["checksum"] == digest({path.stem: entry["reads_file"]}):
            return bool(entry["reads_file"])
    return None


def write_tokenizer_class(folder: Path, tokenizer: Any) -> None:
    """Write into saved files the class with which every version of transformers reads ``tokenizer.json`` as it is.

    Only files of tokenizers of the general class change: versions 4 and 5 have different names for it, and version 4
    takes the space before a text only from the settings.
    """
    from transformers import PreTrainedTokenizerFast

    if type(tokenizer) is not PreTrainedTokenizerFast:
        return
    settings = settings_of(folder) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    pre_tokenizer = _state(tokenizer.backend_tokenizer.pre_tokenizer)
    if pre_tokenizer is not None and pre_tokenizer.get("type") == "ByteLevel":
        settings["add_prefix_space"] = pre_tokenizer["add_prefix_space"]
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
