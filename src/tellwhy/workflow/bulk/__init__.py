"""More rows than fit into memory: explained block by block, by several processes, killed at any moment."""
