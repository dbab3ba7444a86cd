"""In which order options and items stand: mixed, and the same for everybody on the same day, so that no letter pays."""

from __future__ import annotations

import hashlib
import random
import string
from collections.abc import Sequence
from datetime import date
from typing import TypeVar

T = TypeVar("T")
LETTERS = string.ascii_lowercase


def mixed(things: Sequence[T], *, name: str, day: date | None) -> tuple[T, ...]:
    """`things` in an order drawn from the exercise's name and the day; None is the order of a printed sheet, the same every day.

    >>> from datetime import date
    >>> mixed("abcd", name="clip-order/direction", day=None) == mixed("abcd", name="clip-order/direction", day=None)
    True
    >>> sorted(mixed("abcd", name="clip-order/direction", day=date(2026, 1, 1)))
    ['a', 'b', 'c', 'd']
    """
    seed = hashlib.sha256(f"{name} {'sheet' if day is None else day.isoformat()}".encode()).digest()
    kept = list(things)
    random.Random(seed).shuffle(kept)
    return tuple(kept)


def chosen(words: str, among: Sequence[str]) -> str | None:
    """Which of them is meant: by its text, letter, number from 1, or by how it alone begins; None where that is none or several.

    >>> chosen("B", ["its length", "nothing"]), chosen("its l", ["its length", "its direction"]), chosen("it", ["a b", "a c"])
    ('nothing', 'its length', None)

    A number that may be one of the texts is none of a place:

    >>> chosen("2", ["its length", "nothing"]), chosen("2", ["1 byte", "2 bytes"]), chosen("1", ["2 bytes", "4 bytes"])
    ('nothing', '2 bytes', None)
    """
    plain = " ".join(words.split()).casefold()
    texts = {" ".join(each.split()).casefold(): each for each in among}
    if plain in texts:
        return texts[plain]
    letter = plain.strip("().")
    if len(letter) == 1 and letter in LETTERS[: len(among)]:
        return among[LETTERS.index(letter)]
    if not any(each[0].isdigit() for each in texts if each) and letter in map(str, range(1, len(among) + 1)):
        return among[int(letter) - 1]
    begun = [text for each, text in texts.items() if plain and each.startswith(plain)]
    return begun[0] if len(begun) == 1 else None
