"""What people name as a table: a file, several files, standard input, a query of a database."""
