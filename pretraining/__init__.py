"""The pretraining recipe of `tiny`, the embedded language model. Not part of the installed package."""
