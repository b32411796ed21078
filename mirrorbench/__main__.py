"""``python -m mirrorbench`` is the ``mirrorbench`` command."""

import os
import sys

if __name__ == "__main__":
    # Nobody expects plugins or packages in the working directory, unless this package itself is there.
    if not sys.flags.safe_path and sys.path[0] != os.path.dirname(os.path.dirname(__file__)):
        del sys.path[0]
    from mirrorbench.cli import main

    main()
