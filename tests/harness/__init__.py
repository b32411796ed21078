"""For the tests of plugins, bundled or not: a plugin in a process of its own, a bench for executors.

A plugin's ``conftest.py`` puts the folder ``tests`` of a checkout of mirrorbench into ``sys.path``, defines a fixture
``plugin``, which is the module under test, and imports those of ``fixtures``; that of an executor imports those of
``executors`` as well.
"""
