"""What several test files share: made-up data and models, reference computations, fixtures.

For the tests of a plugin: its ``conftest.py`` adds the folder ``tests`` of a checkout of mirrorbench to ``sys.path``, defines a fixture
``plugin`` (the module under test), and imports the fixtures of ``plugin_fixtures``, for an executor
also of ``executor_bench``.
"""
