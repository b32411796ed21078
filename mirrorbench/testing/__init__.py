"""For the tests of plugins: what the plugins of this repository are tested with, and others can be."""
