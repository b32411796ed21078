"""Looking after an installation: what is here and what lacks (``doctor``), and what lies in the cache."""
