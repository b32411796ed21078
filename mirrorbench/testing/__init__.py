"""For the tests of plugins: what the plugins of this repository are tested with, and others can be.

A plugin's ``conftest.py`` defines a fixture ``plugin``, which is the module under test, and imports those of
``fixtures``; that of an executor imports those of ``executors`` as well.
"""
