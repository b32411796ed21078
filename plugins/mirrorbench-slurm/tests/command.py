"""The command line with the executor under test, also where its plugin is not installed."""

import mirrorbench_slurm

from mirrorbench.cli import main
from mirrorbench.plugins import plugins

if __name__ == "__main__":  # workers that are spawned import this file again
    if "slurm" not in plugins().executors:
        plugins().add(mirrorbench_slurm, "slurm")
    main()
