"""The data layer: cards that declare data sets, a store of verified files, parsers of original formats.

A card (``cards``) says which files a task or corpus consists of, where they come from and under what licence.
The store (``store``) keeps those files in one folder, fetches them (``sources``, ``archives``) or takes them
over from a folder of the user (``importing``), and hands out only files whose checksum it has seen. ``formats`` and
``corpora`` turn the files into items (``items``) and texts. Nothing here knows of models.
"""
