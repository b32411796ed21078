"""Executors that need nothing but this machine; others are plugins (``plugins/mirrorbench-ray`` ...)."""
