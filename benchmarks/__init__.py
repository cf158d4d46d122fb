"""Benchmarks, one script a claim; README.md lists them. `python -m benchmarks.CHAPTER.SCRIPT` runs one from the root."""
