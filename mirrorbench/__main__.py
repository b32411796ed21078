"""``python -m mirrorbench`` is the ``mirrorbench`` command."""

from mirrorbench.cli import main

if __name__ == "__main__":
    main()
