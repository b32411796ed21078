"""Files on disks that others use too: written whole or not at all, leased, and read without traps."""
