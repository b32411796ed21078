"""Planning and computing the cells of a run, and keeping what they leave. Renders no text."""
