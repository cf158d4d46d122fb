"""What people look at: plots, report, command line."""
