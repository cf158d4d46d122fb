"""Write the pins anew, or everything that they are hashes of.

OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python tests/pins/write.py             # tests/pins/pins.json
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python tests/pins/write.py FOLDER      # in full, to compare
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

from threadpoolctl import threadpool_limits

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from pins.tables import TABLES  # noqa: E402
from pins.ways import WAYS, made_with, pinned, told  # noqa: E402


def said_of(name: str) -> dict:
    """What every way says of a table."""
    found = {}
    for way, judge in WAYS.items():
        with tempfile.TemporaryDirectory() as folder, threadpool_limits(limits=1):
            found[way] = told(judge(TABLES[name](), Path(folder)))
    return found


def main() -> None:
    """Write one file of hashes, or one file a table."""
    warnings.simplefilter("ignore")
    said = {name: said_of(name) for name in TABLES}
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for name, ways in said.items():
            (folder / f"{name}.json").write_text(json.dumps(ways, indent=1, ensure_ascii=False))
        return
    pins = {name: {way: pinned(each) for way, each in ways.items()} for name, ways in said.items()}
    lines = [f" {json.dumps(name)}: {_one_line_a_way(ways)}" for name, ways in pins.items()]
    body = ",\n".join(lines)
    text = f'{{"made with": {json.dumps(made_with())},\n"pins": {{\n{body}\n}}}}\n'
    (HERE / "pins.json").write_text(text, encoding="utf-8")


def _one_line_a_way(ways: dict) -> str:
    lines = [f"  {json.dumps(way)}: {json.dumps(pin, ensure_ascii=False)}" for way, pin in ways.items()]
    return "{\n" + ",\n".join(lines) + "\n }"


if __name__ == "__main__":
    main()
