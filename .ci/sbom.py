"""Write what a release is made of and what it needs, as CycloneDX 1.5: `python .ci/sbom.py dist/tellwhy-*.whl`.

Every package that the project's requirements lead to, with its version, licence and home, as they are installed here; and
the SHA-256 of the files that are released.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = "tellwhy"


def needed_by(root: str) -> Iterator[Distribution]:
    """The packages that a package leads to, each once, itself left out; extras count, what is absent does not."""
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name != root:
            yield found
        told = [line for line in found.requires or [] if name == root or "extra ==" not in line]
        waiting += [re.split(r"[\s;<>=!~\[(]", line, maxsplit=1)[0] for line in told]


def component(found: Distribution) -> dict[str, Any]:
    """One package as CycloneDX has it."""
    about = found.metadata
    name = re.sub(r"[-_.]+", "-", about["Name"]).lower()
    told = about.get("License-Expression") or about.get("License") or ""
    licence = told.splitlines()[0][:100] if told else ""
    return {
        "type": "library",
        "name": name,
        "version": found.version,
        "purl": f"pkg:pypi/{name}@{found.version}",
        **({"licenses": [{"license": {"name": licence}}]} if licence else {}),
    }


def bill(files: list[Path]) -> dict[str, Any]:
    """The whole bill of materials."""
    ours = distribution(ROOT)
    hashes = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    when = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    others = sorted(map(component, needed_by(ROOT)), key=lambda each: str(each["name"]))
    main = component(ours) | {"type": "application"}
    main["properties"] = [{"name": f"sha256:{name}", "value": found} for name, found in hashes.items()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": when.isoformat(timespec="seconds"), "component": main},
        "components": others,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill([Path(name) for name in sys.argv[1:]]), indent=2) + "\n")
