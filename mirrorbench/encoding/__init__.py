"""From texts to vectors: tokenise, batch by length, pool. Knows nothing of training or tasks."""
