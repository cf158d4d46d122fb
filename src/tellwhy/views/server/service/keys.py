"""Keys of who may call: kept as hashes, compared in a time that tells nothing."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.storage.folders import new_file
from tellwhy.storage.overwriting import allowed

_LINE = re.compile(r"(?P<name>[\w.@-]{1,64})\s+(?P<hash>[0-9a-f]{64})")
MOST_BYTES = 2**20


@dataclass(frozen=True)
class Keys:
    """Names of callers, and the SHA-256 of the key of each, which is random and long and needs no salt."""

    hashes: Mapping[str, bytes]

    def owner(self, headers: Mapping[str, str]) -> str | None:
        """Whose key a request brings, as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""
        told = headers.get("authorization", "")
        is_bearer = told.lower().startswith("bearer ")
        key = told[len("bearer ") :].strip() if is_bearer else headers.get("x-api-key", "")
        given = hashlib.sha256(key.encode("utf-8", errors="replace")).digest()
        found = None
        for name, known in self.hashes.items():  # all of them, whichever agrees
            if hmac.compare_digest(given, known):
                found = name
        return found


def read_keys(path: Path) -> Keys:
    """Read a file of lines 'NAME SHA256'."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UnreadableFile(f"{path} is too large for a file of keys.")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path} cannot be read as a file of keys: {error}.") from error
    hashes = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise UnreadableFile(
                f"Line {number} of {path} is no key; expected 'NAME SHA256'. Add one with "
                "`tellwhy serve --new-key NAME --api-key-file FILE`."
            )
        hashes[found["name"]] = bytes.fromhex(found["hash"])
    if not hashes:
        raise UnreadableFile(f"{path} holds no keys, so that nobody could call.")
    return Keys(hashes)


def add_key(path: Path, name: str) -> str:
    """Add a new key to a file, by its hash, and return the key, which stands nowhere else."""
    if not re.fullmatch(r"[\w.@-]{1,64}", name):
        raise InvalidParameter(f"A key is named by letters, digits and . _ @ -, at most 64. Got {name!r}.")
    key = secrets.token_urlsafe(32)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if name in (line.partition(" ")[0] for line in before.splitlines()):
        raise InvalidParameter(f"{path} has a key named {name!r} already; remove its line first.")
    made = f"{before}{name} {hashlib.sha256(key.encode()).hexdigest()}\n"
    with allowed(force=True), new_file(path) as work:
        work.touch(mode=0o600)
        work.write_text(made, encoding="utf-8")
    return key
