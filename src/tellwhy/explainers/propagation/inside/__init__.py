"""What happens inside the network on the way down: the ledger, and the relevance of hidden units."""
