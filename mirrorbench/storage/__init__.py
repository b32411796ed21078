"""Storage: complete files, checksums, leases, results, and the cache."""
