"""Pictures read back: which marks they hold, where, in which colour, with which words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True)
class Mark:
    """One element of a picture, with its class and its words (those of its title, where it has one)."""

    tag: str
    kind: str
    words: str
    attributes: dict[str, str]

    def at(self, name: str) -> float:
        """A length or place, in pixels or per cent."""
        return float(self.attributes[name].rstrip("%"))

    @property
    def end(self) -> float:
        """Where a rectangle ends along x."""
        return self.at("x") + self.at("width")


def marks(picture: str, kind: str = "") -> list[Mark]:
    """All marks of a picture in the order they are drawn, or those of one class."""
    found = []
    for element in ElementTree.fromstring(str(picture)).iter():
        title = element.find("title")
        words = (element.text or "") if title is None else (title.text or "")
        found.append(Mark(element.tag, element.get("class", ""), words, dict(element.attrib)))
    return [mark for mark in found if not kind or kind in mark.kind.split()]


def mark(picture: str, kind: str) -> Mark:
    """The only mark of a class."""
    (found,) = marks(picture, kind)
    return found


def amount(text: str) -> float:
    """A number as the report writes it, as a float."""
    power = re.search("× 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    plain = text.split("×", maxsplit=1)[0].replace("\u202f", "").replace("−", "-").replace("%", "").strip()
    digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    return float(plain) * 10.0 ** (int(power[1].translate(digits)) if power else 0)
