"""`python -m tellwhy` is the `tellwhy` command."""

from tellwhy.views.cli import main

if __name__ == "__main__":
    main()
