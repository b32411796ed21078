"""Small directories of tokenizers of many kinds, each with the tokenizer that its files describe."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "A man is playing the guitar; UPPER CASE and Title Case words.",
    "Tokenization of texts in several scripts, with 0 1 23 456 numbers",
    "café naïve façade über Ångström Straße",
    "Москва и Санкт-Петербург, ёлка",
    "你好，世界。我喜欢机器学习",
    "東京タワーに行きました",
    "안녕하세요 세계",
    "مرحبا بالعالم",
    "don't can't won't it's we're",
]
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BERT_ROLES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
ROBERTA_ROLES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
    "cls_token": "<s>",
    "sep_token": "</s>",
}


@dataclass
class Kind:
    """A directory of a tokenizer.

    Attributes:
        model_type: in ``config.json``.
        model: ``wordpiece``, ``bytes`` (BPE) or ``unigram``.
        settings: what ``tokenizer_config.json`` states; ``None``: no such file.
        normalizer, pre_tokenizer: in ``tokenizer.json``.
        first, last: tokens around a text in ``tokenizer.json``; empty for none.
        options: what the settings change, as a function of the tokenizer.
        stored: whether ``tokenizer.json`` has padding and a maximum length.
        edit: what is changed in ``tokenizer.json`` after it is written.
        roles: whether the settings name the special tokens.
    """

    model_type: str
    model: str
    settings: Mapping[str, Any] | None = field(default_factory=dict)
    normalizer: Any = None
    pre_tokenizer: Any = None
    first: str = ""
    last: str = ""
    options: Callable[[Tokenizer], None] = lambda tokenizer: None
    stored: bool = False
    edit: Callable[[dict[str, Any]], None] = lambda described: None
    roles: bool = True

    def write(self, folder: Path) -> Tokenizer:
        """Write the directory; return the tokenizer that its files describe."""
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = self.trained()
        if self.stored:
            tokenizer.enable_padding(length=12)
            tokenizer.enable_truncation(6)
        entries = json.loads(tokenizer.to_str())
        self.edit(entries)
        (folder / "tokenizer.json").write_text(json.dumps(entries), encoding="utf-8")
        (folder / "config.json").write_text(json.dumps({"model_type": self.model_type}))
        if self.settings is not None:
            roles = BERT_ROLES if self.model == "wordpiece" else ROBERTA_ROLES
            settings = json.dumps({**(roles if self.roles else {}), **self.settings})
            (folder / "tokenizer_config.json").write_text(settings)
        described = Tokenizer.from_file(str(folder / "tokenizer.json"))
        described.no_padding()
        described.no_truncation()
        self.options(described)
        return described

    def trained(self) -> Tokenizer:
        """Return the tokenizer of ``tokenizer.json``, before ``edit``."""
        special = list(BERT if self.model == "wordpiece" else ROBERTA)
        trainer: Any
        if self.model == "wordpiece":
            tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
            trainer = trainers.WordPieceTrainer(
                vocab_size=400, special_tokens=special, show_progress=False
            )
        elif self.model == "bytes":
            tokenizer = Tokenizer(models.BPE())
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            trainer = trainers.BpeTrainer(
                vocab_size=400,
                special_tokens=special,
                initial_alphabet=alphabet,
                show_progress=False,
            )
        else:
            tokenizer = Tokenizer(models.Unigram())
            trainer = trainers.UnigramTrainer(
                vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False
            )
        if self.normalizer is not None:
            tokenizer.normalizer = self.normalizer
        tokenizer.pre_tokenizer = self.pre_tokenizer
        tokenizer.train_from_iterator(TEXTS * 3, trainer)
        if self.first or self.last:
            tokenizer.post_processor = ends(tokenizer, self.first, self.last)
        return tokenizer


def ends(tokenizer: Tokenizer, first: str, last: str) -> Any:
    """Return a template that puts tokens around each text."""
    around = f"{first} $A {last}".strip()
    both = f"{around} $B:1 {last + ':1' if last else ''}".strip()
    special = [(token, tokenizer.token_to_id(token)) for token in {first, last} if token]
    return processors.TemplateProcessing(single=around, pair=both, special_tokens=special)


def bert_normalizer(**options: bool) -> Any:
    """Return BERT's normaliser."""
    return normalizers.BertNormalizer(**options)


def _normalizes(**options: bool) -> Callable[[Tokenizer], None]:
    def apply(tokenizer: Tokenizer) -> None:
        tokenizer.normalizer = bert_normalizer(**options)

    return apply


def _spaces(space: bool) -> Callable[[Tokenizer], None]:
    def apply(tokenizer: Tokenizer) -> None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)

    return apply


def _adds(first: str, last: str) -> Callable[[Tokenizer], None]:
    def apply(tokenizer: Tokenizer) -> None:
        tokenizer.post_processor = ends(tokenizer, first, last)

    return apply


def _adds_token(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("<extra>", normalized=False)])


def _adds_special(*names: str, **flags: bool) -> Callable[[Tokenizer], None]:
    def apply(tokenizer: Tokenizer) -> None:
        tokenizer.add_tokens(
            [AddedToken(name, special=True, normalized=False, **flags) for name in names]
        )

    return apply


def _without_dropout(tokenizer: Tokenizer) -> None:
    tokenizer.model.dropout = None


def _sets(**options: Any) -> Callable[[dict[str, Any]], None]:
    def apply(described: dict[str, Any]) -> None:
        described["model"].update(options)

    return apply


def _ignores_merges(described: dict[str, Any]) -> None:
    """A word of the vocabulary that no merges make is a token."""
    described["model"]["ignore_merges"] = True
    described["model"]["vocab"]["\u0120zyxq"] = len(described["model"]["vocab"])


def _bert(settings: Mapping[str, Any] | None, lowercase: bool, **more: Any) -> Kind:
    return Kind(
        "bert",
        "wordpiece",
        settings,
        bert_normalizer(lowercase=lowercase),
        pre_tokenizers.BertPreTokenizer(),
        "[CLS]",
        "[SEP]",
        **more,
    )


def _bytes(model_type: str, settings: Mapping[str, Any], space: bool, **more: Any) -> Kind:
    ends_of_text = {"first": "<s>", "last": "</s>"} | more
    return Kind(
        model_type,
        "bytes",
        settings,
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=space),
        **ends_of_text,
    )


def _unigram(model_type: str, settings: Mapping[str, Any]) -> Kind:
    return Kind(
        model_type,
        "unigram",
        settings,
        normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
        pre_tokenizers.Metaspace(),
        "<s>",
        "</s>",
    )


_EXTRA = {
    "content": "<extra>",
    "special": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "single_word": False,
}
_MASK = {
    "content": "<mask>",
    "special": True,
    "lstrip": True,
    "rstrip": False,
    "normalized": False,
    "single_word": False,
}
_CLASS = "tokenizer_class"
_UNIGRAM_CLASSES = {
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
    "t5": "T5Tokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "albert": "AlbertTokenizer",
    "big_bird": "BigBirdTokenizer",
    "xlnet": "XLNetTokenizer",
    "pegasus": "PegasusTokenizer",
    "barthez": "BarthezTokenizer",
}
_BYTE_CLASSES = {
    "roberta": "RobertaTokenizer",
    "gpt2": "GPT2Tokenizer",
    "bart": "BartTokenizer",
    "longformer": "LongformerTokenizer",
    "deberta": "DebertaTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "modernbert": "PreTrainedTokenizerFast",
}
KINDS: dict[str, Kind] = {
    "bert uncased": _bert({_CLASS: "BertTokenizer", "do_lower_case": True}, True),
    "bert cased": _bert({_CLASS: "BertTokenizer", "do_lower_case": False}, False),
    "bert, case stated otherwise": _bert(
        {_CLASS: "BertTokenizer", "do_lower_case": False},
        True,
        options=_normalizes(lowercase=False),
    ),
    "bert, lower case stated otherwise": _bert(
        {_CLASS: "BertTokenizer", "do_lower_case": True}, False, options=_normalizes(lowercase=True)
    ),
    "bert, accents and Chinese characters": _bert(
        {
            _CLASS: "BertTokenizer",
            "do_lower_case": True,
            "strip_accents": False,
            "tokenize_chinese_chars": False,
        },
        True,
        options=_normalizes(lowercase=True, strip_accents=False, handle_chinese_chars=False),
    ),
    "bert uncased without settings": _bert(None, True),
    "bert without a class": _bert({}, True),
    "bert with stored padding": _bert({_CLASS: "BertTokenizer"}, True, stored=True),
    "bert with an added token": _bert(
        {_CLASS: "BertTokenizer", "added_tokens_decoder": {"400": _EXTRA}},
        True,
        options=_adds_token,
    ),
    "bert with extra tokens listed": _bert(
        {_CLASS: "BertTokenizer", "additional_special_tokens": ["<|im_start|>", "[ENT]"]},
        True,
        options=_adds_special("<|im_start|>", "[ENT]"),
    ),
    "bert with extra tokens named": _bert(
        {"extra_special_tokens": {"end_token": "<|im_end|>"}},
        True,
        options=_adds_special("<|im_end|>"),
    ),
    "bert with words of 50 characters": _bert(
        {_CLASS: "BertTokenizer"}, True, edit=_sets(max_input_chars_per_word=50)
    ),
    "bert with a replacement": Kind(
        "bert",
        "wordpiece",
        {_CLASS: "BertTokenizer"},
        normalizers.Sequence(
            [normalizers.Replace("guitar", "fox"), bert_normalizer(lowercase=True)]
        ),
        pre_tokenizers.BertPreTokenizer(),
        "[CLS]",
        "[SEP]",
    ),
    "distilbert": Kind(
        "distilbert",
        "wordpiece",
        {_CLASS: "DistilBertTokenizer"},
        bert_normalizer(lowercase=True),
        pre_tokenizers.BertPreTokenizer(),
        "[CLS]",
        "[SEP]",
    ),
    "bert's class, other normaliser": Kind(
        "bert",
        "wordpiece",
        {},
        normalizers.NFC(),
        pre_tokenizers.Whitespace(),
        "[CLS]",
        "[SEP]",
    ),
    "bert's class, unigram": _unigram("bert", {}),
    "bert's class, unigram without special tokens": Kind(
        "bert",
        "unigram",
        {_CLASS: "BertTokenizer", "pad_token": "<pad>"},
        pre_tokenizer=pre_tokenizers.Metaspace(),
        first="<s>",
        last="</s>",
        roles=False,
    ),
    "roberta with a mask that takes the space before it": _bytes(
        "roberta",
        {_CLASS: "RobertaTokenizer", "added_tokens_decoder": {"4": _MASK}},
        False,
        options=_adds_special("<mask>", lstrip=True),
    ),
    "roberta with dropout of merges": _bytes(
        "roberta",
        {_CLASS: "RobertaTokenizer"},
        False,
        edit=_sets(dropout=0.3),
        options=_without_dropout,
    ),
    "gpt2 that ignores merges": _bytes(
        "gpt2", {_CLASS: "GPT2Tokenizer"}, False, edit=_ignores_merges
    ),
    "roberta's class, lower case": Kind(
        "roberta",
        "bytes",
        {_CLASS: "RobertaTokenizer"},
        normalizers.Lowercase(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        "<s>",
        "</s>",
    ),
    **{
        f"unigram in the class of {model_type}": _unigram(model_type, {_CLASS: name})
        for model_type, name in _UNIGRAM_CLASSES.items()
    },
    **{
        f"bytes in the class of {model_type}, space {space}": _bytes(
            model_type,
            {_CLASS: name, "add_prefix_space": space},
            False,
            options=_spaces(space),
        )
        for model_type, name in _BYTE_CLASSES.items()
        for space in (True, False)
    },
    "llama with both ends stated": _bytes(
        "llama",
        {_CLASS: "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True},
        False,
        last="",
        options=_adds("<s>", "</s>"),
    ),
    "mistral with its end stated": _bytes(
        "mistral",
        {_CLASS: "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True},
        False,
        first="",
        last="",
        options=_adds("<s>", "</s>"),
    ),
    "llama with a beginning alone": _bytes(
        "llama",
        {_CLASS: "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False},
        False,
        last="",
    ),
    "llama with neither end": _bytes(
        "llama",
        {_CLASS: "LlamaTokenizer", "add_bos_token": False, "add_eos_token": False},
        False,
        first="",
        last="",
    ),
}
"""By name; versions 4 and 5 of transformers differ in what they make of some of them."""
