"""Train the lower-casing WordPiece tokenizer of `tiny`.

    python -m pretraining.tokenizer --text CLEAN_TEXT --output FOLDER

Ties between equally frequent merges may fall differently on a rerun: the shipped `tokenizer.json` is the
reference.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertTokenizerFast

VOCABULARY_SIZE = (
    8192  # more than half of the model's parameters are word pieces: the size that fits in 8 MB
)
ALPHABET_SIZE = (
    200  # every further character costs two pieces ("c", "##c"); rarer ones become [UNK]
)
MAX_LENGTH = 64
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(len(SPECIAL_TOKENS))
FIRST_ORDINARY_ID = len(SPECIAL_TOKENS)


def train_tokenizer(text: Path) -> Tokenizer:
    """Learn a WordPiece vocabulary with BERT's normalisation, splitting and template."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY_SIZE,
        limit_alphabet=ALPHABET_SIZE,
        special_tokens=SPECIAL_TOKENS,
        continuing_subword_prefix="##",
        show_progress=False,
    )
    tokenizer.train([str(text)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    return tokenizer


def main() -> None:
    """Train, and save in the layout that `AutoTokenizer` reads."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--output", type=Path, required=True, help="folder for the tokenizer files")
    args = parser.parse_args()
    tokenizer = BertTokenizerFast(
        tokenizer_object=train_tokenizer(args.text), do_lower_case=True, model_max_length=MAX_LENGTH
    )
    tokenizer.save_pretrained(args.output)
    print(f"{len(tokenizer):,d} word pieces in {args.output}")


if __name__ == "__main__":
    main()
