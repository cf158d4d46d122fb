"""What would make a row normal: moving away from rows, lowest scores nearby, the nearest normal row."""
