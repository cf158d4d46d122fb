"""More rows than fit into memory, explained block by block: by several processes, and killed at any moment."""
