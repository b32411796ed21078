"""Contrastive tuning of a backbone: methods, recipes, augmentations, losses and the loop. Knows nothing of tasks."""
