"""How far an explanation can be trusted."""
