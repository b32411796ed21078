"""Encoders, a file each, each registered through a hook."""
