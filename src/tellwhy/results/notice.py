"""Something that is to be said, as a kind and its facts; `words` makes the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

WRITTEN = "as_written"  # kind of a notice or a reason that holds its sentence itself


@dataclass(frozen=True)
class Notice:
    """Something that is to be said: of which kind, and with which facts."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """The sentence."""
        from tellwhy.words import tell

        return tell.notice(self)

    def beside(self, **facts: Any) -> Notice:
        """The same, with more facts."""
        return Notice(self.kind, {**self.facts, **facts})


def written(text: str) -> Notice:
    """A notice that holds its sentence itself: what an error said, or what an earlier version saved."""
    return Notice(WRITTEN, {"text": text})


def as_notices(said: Iterable[Any]) -> tuple[Notice, ...]:
    """Notices as they are, or as JSON holds them; sentences of earlier versions as they were written."""
    return tuple(map(_as_notice, said))


def _as_notice(said: Any) -> Notice:
    if isinstance(said, Notice):
        return said
    return written(said) if isinstance(said, str) else Notice(said["kind"], said["facts"])


def say_all(said: Iterable[Any]) -> list[str]:
    """The sentences of several notices."""
    return [notice.text for notice in as_notices(said)]
