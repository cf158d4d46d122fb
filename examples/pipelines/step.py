"""A step of a pipeline: judge today's file, write what was found, and stop the pipeline where too much is odd.

    python step.py orders.tellwhy today.csv found --most-alarms 5

It is plain Python and ends with the status of `tellwhy explain --fail-on-alarms`: 0 where the file may go on, 3
where it may not, 1 for a file that cannot be read. Airflow, Dagster, dbt and cron all take it as it is.
"""

import argparse
import sys
from pathlib import Path

import tellwhy
from tellwhy.core.errors import TellwhyError
from tellwhy.workflow import explain_new, save_run

TOO_MANY = 3


def judge_file(model: Path, file: Path, out: Path, most_alarms: int) -> int:
    """Return the status of the step."""
    try:
        run = explain_new(tellwhy.load(model), file)
        save_run(run, out)
    except TellwhyError as error:
        print(error, file=sys.stderr)
        return 1
    print(" ".join(run.headline))
    return TOO_MANY if run.n_flagged > most_alarms else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "file", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--most-alarms", type=int, default=0)
    asked = parser.parse_args()
    sys.exit(judge_file(asked.model, asked.file, asked.out, asked.most_alarms))
