"""The papers' tables and figures: what they publish, and what was measured.

``tables`` are values, ``reading`` makes them from the YAML files under ``leaderboards/``, ``measured`` puts measured
scores beside published ones and says what there is to run, ``rendering`` makes tables of the one model of them.
"""
