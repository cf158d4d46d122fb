"""What each column is, how it becomes numbers, and what is usual in it."""
