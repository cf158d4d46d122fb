"""`python -m tellwhy` is the `tellwhy` command."""

import sys

if __name__ == "__main__":
    # `python -m` puts the working folder before all packages: a file there that is called like one would be
    # run. Nothing but what Python itself has loaded may be imported before this.
    if not sys.flags.safe_path:
        del sys.path[0]

    from tellwhy.views.cli import main

    main()
