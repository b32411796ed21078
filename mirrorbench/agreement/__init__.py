"""Whether two encoders return the same vectors, and what the difference comes from if they do not."""
