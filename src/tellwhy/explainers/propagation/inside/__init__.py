"""What happens inside the network: modules, places, tokens, the course of a batch, and the ledger."""
