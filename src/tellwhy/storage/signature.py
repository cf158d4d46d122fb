"""Which model a file is, and who wrote it: its SHA-256, and a signature with a secret that both sides know.

A signature is HMAC-SHA256 (RFC 2104) of the file with the secret, in `FILE.signature` beside it. Whoever does
not know the secret cannot make one; whoever changes the model makes it fail.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from pathlib import Path

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.storage.folders import new_file

SUFFIX = ".signature"
LEAST_SECRET = 16  # bytes
_FINGERPRINT = re.compile(r"[0-9a-fA-F]{64}")


def fingerprint_of(model: str | Path) -> str:
    """Return the SHA-256 of a model file."""
    try:
        with Path(model).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnreadableFile(f"Cannot read {model}: {error.strerror or error}.") from error


def path_of_signature(model: str | Path) -> Path:
    """Return where the signature of a model stands."""
    place = Path(model)
    return place.with_name(place.name + SUFFIX)


def check_secret(secret: str | Path) -> bytes:
    """Return the secret in a file, or raise where there is none that is long enough."""
    try:
        found = Path(secret).read_bytes().strip()
    except OSError as error:
        raise UnreadableFile(f"Cannot read the secret {secret}: {error.strerror or error}.") from error
    if len(found) < LEAST_SECRET:
        raise InvalidParameter(
            f"{secret} holds {len(found)} bytes; a secret needs at least {LEAST_SECRET}. Make one with "
            f"`openssl rand -hex 32 > {secret}`."
        )
    return found


def sign_model(model: str | Path, secret: str | Path) -> Path:
    """Write the signature of a model beside it."""
    target = path_of_signature(model)
    with new_file(target) as work:
        work.write_text(_signature(model, check_secret(secret)) + "\n", encoding="ascii")
    return target


def check_expected(model: str | Path, expected: str) -> None:
    """Raise `UnreadableFile` unless a model has this SHA-256, or was signed with the secret in this file.

    Parameters
    ----------
    model
        The model file.
    expected
        64 hexadecimal digits, or the name of a file that holds the secret.
    """
    if _FINGERPRINT.fullmatch(expected):
        found = fingerprint_of(model)
        if not hmac.compare_digest(found, expected.lower()):
            raise UnreadableFile(f"{model} is another model: its SHA-256 is {found}, expected {expected}.")
        return
    secret = check_secret(expected)
    place = path_of_signature(model)
    try:
        told = place.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise UnreadableFile(
            f"{model} is not signed: {place} cannot be read. Fit it with --sign {expected}."
        ) from error
    if not hmac.compare_digest(told.lower(), _signature(model, secret)):
        raise UnreadableFile(
            f"{model} was changed after it was signed, or signed with another secret than that in {expected}."
        )


def _signature(model: str | Path, secret: bytes) -> str:
    try:
        with Path(model).open("rb") as file:
            return hmac.new(secret, hashlib.file_digest(file, "sha256").digest(), "sha256").hexdigest()
    except OSError as error:
        raise UnreadableFile(f"Cannot read {model}: {error.strerror or error}.") from error
