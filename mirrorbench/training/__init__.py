"""Contrastive tuning: losses and the loop. Knows nothing of tasks."""
