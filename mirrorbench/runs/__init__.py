"""Plans the cells of a run, computes and stores them. Renders no text."""
