"""The service: saved models behind an address, for programs."""
