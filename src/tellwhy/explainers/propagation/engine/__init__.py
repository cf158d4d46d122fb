"""One forward pass that records operations, and backward passes through the rules."""
