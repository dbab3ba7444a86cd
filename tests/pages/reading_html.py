"""A page taken apart by the standard library's parser, for the tests to look at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = frozenset(["br", "hr", "img", "input", "link", "meta"])


@dataclass
class Element:
    """An element with its attributes and the text inside it, that of its descendants included."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """Every element of a page in order; an element that is left open or closed twice fails."""

    elements: list[Element] = field(default_factory=list)
    _open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        assert len(element.attributes) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))  # SVG's way

    def handle_endtag(self, tag: str) -> None:
        element = self._open.pop()
        assert element.tag == tag, f"{element.tag} {element.attributes} is closed by {tag}"

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def close(self) -> None:
        super().close()
        assert not self._open, [element.tag for element in self._open]

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements of a kind whose attributes are these."""
        return [
            element
            for element in self.elements
            if element.tag == tag and all(element.attributes.get(key) == value for key, value in attributes.items())
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        """The only such element."""
        (element,) = self.all(tag, **attributes)
        return element

    def json(self, name: str) -> Any:
        """The JSON in the script element of this id."""
        return json.loads(self.one("script", id=name, type="application/json").text)


def parsed(path: Path) -> Page:
    """The page in `path`."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page
