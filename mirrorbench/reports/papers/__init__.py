"""The papers' tables and figures: what they publish, and what was measured.

``tables`` are values, ``reading`` makes them from the YAML files under ``leaderboards/``, ``checking`` recomputes what
can be recomputed, ``joining`` puts measured scores beside published ones, ``planning`` says what there is to run, and
``rendering`` makes text.
"""
