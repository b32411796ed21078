"""A user's own texts: read as a stream from whatever they lie in, as plain texts, pairs, or words in context."""
