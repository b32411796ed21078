"""Backbones and other encoders, and how texts become vectors. Knows nothing about training or tasks."""
