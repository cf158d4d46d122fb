"""The file of pins: what all methods found when it was written, and how they were called.

`PYTHONPATH=tests python -m pins_of_methods.pins` compares and lists what differs, to the last bit.
`PYTHONPATH=tests python -m pins_of_methods.pins --write` writes the file anew, `--write-signatures` its names and
parameters only (and docs/reference/public-names.txt); read the difference before you commit it. Models that were
saved before are never written again: they are what older versions left behind.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pins_of_methods import saved_models, signatures, values
from threadpoolctl import threadpool_limits

FILE = Path(__file__).parent / "pins.json"
PUBLIC = Path(__file__).parents[2] / "docs" / "reference" / "public-names.txt"
GROUPS = {
    "detectors": values.of_detectors,
    "explainers": values.of_explainers,
    "saved models": saved_models.of_saved_models,
}


def pins() -> dict[str, Any]:
    """Return what the file holds."""
    held: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return held


def measured() -> dict[str, Any]:
    """Return what the file would hold if it were written now."""
    with threadpool_limits(1):
        found = {group: {name: run() for name, run in of().items()} for group, of in GROUPS.items()}
    return {**found, "signatures": signatures.of_the_package()}


def differences(held: Any, found: Any, place: str = "") -> Iterator[str]:
    """Yield where two files differ, one line each."""
    if isinstance(held, dict) and isinstance(found, dict):
        for name in {**held, **found}:
            yield from differences(held.get(name), found.get(name), f"{place} / {name}".lstrip(" /"))
    elif held != found:
        yield f"{place}: was {held}, is {found}"


def _write(held: dict[str, Any]) -> None:
    FILE.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PUBLIC.write_text(signatures.list_public_names(), encoding="utf-8")


def main() -> int:
    """Compare, or write."""
    if "--write" in sys.argv:
        saved_models.write()
        _write(measured())
        return 0
    if "--write-signatures" in sys.argv:
        _write({**pins(), "signatures": signatures.of_the_package()})
        return 0
    found = list(differences(pins(), json.loads(json.dumps(measured()))))
    print("\n".join(found) if found else "Every method gives the same bits.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
