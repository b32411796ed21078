"""A user's own texts: a stream of plain texts, pairs or words in context from any file, and a file of their vectors."""
