"""Analyses: what tuning does to a space of vectors, and where it helps.

One module a kind holds the numbers, as pure functions of arrays; ``figures`` draws them, ``session`` brings in encoders
and stored results, ``report`` writes files. ``mirrorbench analyze`` joins them.
"""
