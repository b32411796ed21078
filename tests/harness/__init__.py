"""Fixtures and helpers for the tests of plugins, bundled or not.

A plugin's ``conftest.py`` adds the folder ``tests`` of a checkout of mirrorbench to ``sys.path``, defines a fixture
``plugin`` (the module under test), and imports the fixtures of ``fixtures``, for an executor also of ``executors``.
"""
