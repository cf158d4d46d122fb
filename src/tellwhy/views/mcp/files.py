"""The one folder whose files an assistant may name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from tellwhy.core.errors import InvalidParameter


@dataclass(frozen=True)
class Root:
    """Files below one folder, named relative to it; nothing else can be reached.

    Attributes
    ----------
    folder
        The folder, absolute and without links.
    may_write
        Whether files may be written as well.
    """

    folder: Path
    may_write: bool = False

    @classmethod
    def of(cls, folder: str | Path, *, may_write: bool = False) -> Root:
        """The files below a folder that is there."""
        place = Path(folder)
        if not place.is_dir():
            raise InvalidParameter(f"{folder} is no folder; name the one whose files may be read.")
        return cls(place.resolve(), may_write)

    def file(self, name: str) -> Path:
        """Return the place of a file that is there."""
        place = self._place(name)
        if not place.is_file():
            raise InvalidParameter(f"There is no file {name!r} in the folder.{self._files_there()}")
        return place

    def new_file(self, name: str) -> Path:
        """Return the place of a file that is to be written."""
        if not self.may_write:
            raise InvalidParameter(
                "Files can only be read here. Whoever started the server may allow writing with --write."
            )
        place = self._place(name)
        if not place.parent.is_dir():
            raise InvalidParameter(f"There is no folder for {name!r}; make it first, or name another.")
        return place

    def named(self, text: str) -> str:
        """Text that names files as the assistant does, not by where the folder lies."""
        return text.replace(f"{self.folder}/", "").replace(str(self.folder), "the folder")

    def _place(self, name: str) -> Path:
        told = PurePosixPath(name.replace("\\", "/"))
        is_outside = told.is_absolute() or ".." in told.parts or bool(PureWindowsPath(name).drive)
        if is_outside or "\0" in name or not told.parts:
            raise InvalidParameter(
                f"{name!r} is not below the folder. Name a file relative to it, without '..'."
            )
        place = self.folder
        for part in told.parts:
            place = place / part
            if place.is_symlink():  # it may lead anywhere, and be turned elsewhere between two looks
                raise InvalidParameter(f"{name!r} goes through a symbolic link, which is not followed.")
        return place

    def _files_there(self) -> str:
        names = sorted(path.name for path in self.folder.iterdir() if path.is_file())
        return f" There are: {', '.join(map(repr, names[:20]))}." if names else ""
