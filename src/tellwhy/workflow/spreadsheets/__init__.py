"""A run as spreadsheets: the odd rows as they stand in the table, with their reasons beside them."""
