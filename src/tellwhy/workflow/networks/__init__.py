"""Networks from the command line: loaded without unpickling, applied to pictures and texts, explained."""
