"""Pictures and texts as a network takes them, and as people see them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.core.progress import track
from tellwhy.core.score import Floats
from tellwhy.data.images import is_picture, list_pictures, read_picture
from tellwhy.kinds.networks.loading import LoadedNetwork
from tellwhy.results.notice import Notice, written

MOST_PICTURES = 2_000
WHOLE = 4_096  # longest side as it is read, where no size is known
_UNKNOWN = ("<unknown>", "<unk>", "[unk]", "[UNK]", "<UNK>")
_WORD = re.compile(r"[\w']+|[^\w\s]")


@dataclass(frozen=True, eq=False)
class Entry:
    """One input: what the network gets, and what people see of it (pixels from 0 to 255, or words)."""

    name: str
    row: np.ndarray
    pixels: Floats = field(default_factory=lambda: np.empty(0))
    words: Sequence[str] = ()
    said: Sequence[Notice] = ()


@dataclass(frozen=True)
class Preparation:
    """How inputs are prepared, as the options say.

    Attributes
    ----------
    size
        Height and width; None: as exported, or as the picture is.
    mean, std
        Of each channel: pixels from 0 to 1 become (pixel − mean) / std.
    vocabulary
        File of words, one a line: the number of a word is that of its line, from 0.
    """

    size: tuple[int, int] | None = None
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    vocabulary: str | Path | None = None


@dataclass(frozen=True, eq=False)
class Entries:
    """All inputs, notices on them, and the number that stands for unknown words."""

    entries: Sequence[Entry]
    said: Sequence[Notice] = ()
    unknown: int | None = None


def read_entries(source: str, network: LoadedNetwork, how: Preparation) -> Entries:
    """Read what is to be explained: a picture, a folder of them, a file of text, or the text itself."""
    path = Path(source)
    if path.is_dir() or is_picture(source):
        return _read_pictures(source, network, how)
    is_file = path.suffix.lower() == ".txt" or (len(source) < 4_000 and "\n" not in source and path.is_file())
    if is_file and not path.is_file():
        raise UnreadableFile(f"{source} does not exist.")
    text = _read_file_text(path) if is_file else source
    words = _read_vocabulary(how.vocabulary)
    entry = _read_text(path.name if is_file else "the text", text, network, words)
    return Entries([entry], unknown=next((words[name] for name in _UNKNOWN if name in words), None))


def _read_file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path} cannot be read as text in UTF-8: {error}.") from error


def _read_pictures(source: str, network: LoadedNetwork, how: Preparation) -> Entries:
    """Pictures of a file or a folder; one of many that cannot be read is told, and the others go on."""
    if network.takes_tokens:
        raise InvalidInput(
            f"{source} is a picture, or a folder; the network takes numbers of words. Pass a text."
        )
    paths = list_pictures(source)
    said = []
    if len(paths) > MOST_PICTURES:
        said.append(Notice("first_pictures", {"n": MOST_PICTURES, "of": len(paths)}))
        paths = paths[:MOST_PICTURES]
    entries = []
    failed = []
    for path in track(paths, len(paths), "reading pictures"):
        try:
            entries.append(_read_picture(path, network, how))
        except InvalidInput as error:
            if len(paths) == 1:
                raise
            failed.append(Notice("picture_left_out", {"used": "explained", "why": str(error)}))
    if not entries:
        raise InvalidInput(f"None of the {len(paths)} pictures can be explained. The first: {failed[0].text}")
    said += failed[:5] + ([Notice("more_unread", {"n": len(failed) - 5})] if len(failed) > 5 else [])
    _check_alike(entries)
    return Entries(entries, said)


def _check_alike(entries: Sequence[Entry]) -> None:
    other = next((e for e in entries if e.row.shape != entries[0].row.shape), None)
    if other is not None:
        first = entries[0]
        raise InvalidInput(
            f"{first.name} has the shape {first.row.shape} and {other.name} {other.row.shape}. Pass --size, "
            "to which all of them are brought."
        )


def _read_picture(path: Path, network: LoadedNetwork, how: Preparation) -> Entry:
    shape = network.shape if len(network.shape) == 3 else (None, None, None)
    size = how.size or ((shape[1], shape[2]) if shape[1] and shape[2] else None)
    picture = read_picture(path, side=WHOLE)
    said = [written(text) for text in picture.notices]
    pixels = picture.pixels
    if size is not None and pixels.shape[:2] != size:
        said.append(Notice("resized", {"size": [*pixels.shape[1::-1]], "to": [size[1], size[0]]}))
        pixels = _resize(pixels, (int(size[0]), int(size[1])))
    if network.prepare is not None:
        row = np.asarray(_prepare_input(network.prepare, pixels, path.name), dtype=np.float32)
        return Entry(str(path), row[0] if row.ndim == 4 and len(row) == 1 else row, pixels, said=said)
    channels = shape[0] or (1 if pixels.ndim == 2 else 3)
    planes = _make_planes(pixels, channels)
    mean, std = (np.asarray(v, dtype=np.float64).reshape(-1, 1, 1) for v in (how.mean, how.std))
    if len(mean) not in (1, channels) or len(std) not in (1, channels):
        raise InvalidParameter(f"--mean and --std take one number, or one for each of {channels} channels.")
    return Entry(str(path), ((planes / 255.0 - mean) / std).astype(np.float32), pixels, said=said)


def _make_planes(pixels: Floats, channels: int) -> Floats:
    """Channels first, as many as the network takes; grey is repeated, colours become grey."""
    if channels not in (1, 3):
        raise InvalidInput(
            f"The network takes pictures of {channels} channels; files have 1 or 3. Name it with a function "
            "that prepares an input: module:function that returns (network, prepare)."
        )
    if pixels.ndim == 2:
        return np.repeat(pixels[None], channels, axis=0)
    return np.moveaxis(pixels, 2, 0) if channels == 3 else (pixels @ [0.299, 0.587, 0.114])[None]


def _resize(pixels: Floats, size: tuple[int, int]) -> Floats:
    """Scale so that the whole frame is covered, and cut what stands out at both sides alike."""
    from PIL import Image

    zoom = max(size[0] / pixels.shape[0], size[1] / pixels.shape[1])
    wide = max(size[1], round(pixels.shape[1] * zoom))
    high = max(size[0], round(pixels.shape[0] * zoom))
    image = Image.fromarray(np.clip(pixels + 0.5, 0, 255).astype(np.uint8)).resize(
        (wide, high), Image.Resampling.LANCZOS
    )
    top, left = (high - size[0]) // 2, (wide - size[1]) // 2
    return np.asarray(image, dtype=np.float64)[top : top + size[0], left : left + size[1]]


def _prepare_input(prepare: Any, given: Any, name: str) -> Any:
    """What the user's function makes of an input."""
    try:
        found = prepare(given)
    except Exception as error:  # the user's function may raise anything
        what = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"The function that prepares inputs failed on {name}: {what}.") from error
    return found.detach().cpu().numpy() if hasattr(found, "detach") else found


def _read_vocabulary(path: str | Path | None) -> dict[str, int]:
    if path is None:
        return {}
    return {word: k for k, word in reversed(list(enumerate(_read_file_text(Path(path)).splitlines())))}


def _read_text(name: str, text: str, network: LoadedNetwork, numbers: dict[str, int]) -> Entry:
    """A text as numbers of its words: by the user's function, or by a vocabulary."""
    if not text.strip():
        raise InvalidInput(f"{name} is empty; expected words.")
    if network.prepare is not None:
        found = _prepare_input(network.prepare, text, name)
        tokens, words = found if isinstance(found, tuple) else (found, text.split())
        row = np.asarray(tokens).reshape(-1)
        if len(words) != len(row):
            raise InvalidInput(
                f"The function that prepares texts gave {len(row)} numbers for {len(words)} words. Let it "
                "return a pair: the numbers, and what each stands for."
            )
        return Entry(name, row, words=[str(word) for word in words])
    if not network.takes_tokens:
        raise InvalidInput(
            f"{name!r} is no file, and the network takes no words. Pass a picture, a folder of them, or name "
            "a function that prepares texts: module:function that returns (network, prepare)."
        )
    if not numbers:
        raise InvalidParameter(
            "Texts need --vocabulary FILE, one word a line, or a function that prepares them."
        )
    return _number_words(name, text, network, numbers)


def _number_words(name: str, text: str, network: LoadedNetwork, numbers: dict[str, int]) -> Entry:
    words = _WORD.findall(text if any(w != w.lower() for w in numbers if w not in _UNKNOWN) else text.lower())
    unknown = next((numbers[word] for word in _UNKNOWN if word in numbers), None)
    missing = [word for word in words if word not in numbers]
    if missing and unknown is None:
        raise InvalidInput(
            f"The vocabulary has no {missing[0]!r}, and no line for unknown words ({_UNKNOWN[0]}). Add one."
        )
    row = np.array([numbers.get(word, unknown) for word in words], dtype=np.int64)
    said = [Notice("words_unknown", {"words": list(dict.fromkeys(missing))})] if missing else []
    length = network.shape[0] if len(network.shape) == 1 else None
    if length is not None and length != len(row):
        raise InvalidInput(f"{name} has {len(row)} words; the network was exported for exactly {length}.")
    return Entry(name, row, words=words, said=said)


def read_labels(path: Path) -> list[str]:
    """Names of the classes in order: one a line, a JSON list, or a JSON object from numbers to names."""
    text = _read_file_text(path)
    if path.suffix.lower() != ".json":
        names = [line.strip() for line in text.splitlines()]
        while names and not names[-1]:
            names.pop()
        return names
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            return [str(found[str(k)]) for k in range(len(found))]
        return [str(name) for name in found]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableFile(
            f"{path} must hold a JSON list of names, or an object from 0, 1, 2, … to names: {error!r}."
        ) from error
