"""Other words for words, in the same order.

Every name is taken apart at its separators and each word replaced by itself, so what belongs together by name
still does: the pods of `web-7f9c4` are `w017-w003-…` of `w017-w003`. Words are numbered in sorted order and
all of one length, and every separator sorts before every letter: so names sort as they did before, and a
planner that breaks ties by name decides as before.

A book is used in two rounds: in the first it hears every word, in the second it speaks.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["Numbers", "Spaces", "Uids", "Words"]

_SEPARATORS = re.compile(r"([-_./:@^,=+~\s]+)")


class Words:
    """Names of any kind."""

    def __init__(self) -> None:
        self._heard: set[str] = set()
        self._ordinal_names: set[str] = set()
        self._spoken: dict[str, str] | None = None
        self._cache: dict[str, str] = {}

    def hear_ordinal(self, pod: str) -> None:
        """The number at the end of a StatefulSet's pod stays what it is: its controller goes by it."""
        self._ordinal_names.add(pod)

    def settle(self) -> None:
        width = len(str(len(self._heard)))
        self._spoken = {word: f"w{place:0{width}d}" for place, word in enumerate(sorted(self._heard), 1)}

    def __call__(self, name: str) -> str:
        if self._spoken is None:
            self._heard.update(_parts(name)[::2])
            return name
        if name not in self._cache:
            self._cache[name] = self._replaced(name)
        return self._cache[name]

    def _replaced(self, name: str) -> str:
        assert self._spoken is not None
        parts = _parts(name)
        words = [
            part if place % 2 or not part or self._is_ordinal(parts, place) else self._spoken[part]
            for place, part in enumerate(parts)
        ]
        return "".join(words)

    def _is_ordinal(self, parts: tuple[str, ...], place: int) -> bool:
        if not parts[place].isdecimal():
            return False
        return any("".join(parts[first : place + 1]) in self._ordinal_names for first in range(0, place, 2))


@lru_cache(maxsize=65_536)
def _parts(name: str) -> tuple[str, ...]:
    """Words at even places, what separates them at odd ones."""
    return tuple(_SEPARATORS.split(name))


_STEMS = ("area", "group", "space")


class Spaces:
    """Namespaces: some are known to everybody and stay, and the others keep their place among them."""

    def __init__(self, kept: Iterable[str]) -> None:
        self._kept = frozenset(kept)
        self._heard: set[str] = set()
        self._spoken: dict[str, str] | None = None

    def settle(self) -> None:
        names = sorted(self._heard - self._kept, key=_in_keys)
        width = len(str(len(names)))
        self._spoken = {name: name for name in self._kept}
        for place, name in enumerate(names, 1):
            self._spoken[name] = f"{self._stem(name)}{place:0{width}d}"

    def _stem(self, name: str) -> str:
        """One that sorts where the name does, among those that stay."""
        before = max((kept for kept in self._kept if _in_keys(kept) < _in_keys(name)), default="")
        after = min((kept for kept in self._kept if _in_keys(kept) > _in_keys(name)), default="~")
        # 0 comes before every letter, and after the slash that ends a namespace in a pod's key.
        return next((stem for stem in _STEMS if before < stem < after), f"{before}0")

    def __call__(self, name: str) -> str:
        if self._spoken is None:
            self._heard.add(name)
            return name
        return self._spoken.get(name, name)


def _in_keys(namespace: str) -> str:
    """How it sorts in `namespace/name`."""
    return f"{namespace}/"


class Uids:
    def __init__(self) -> None:
        self._heard: set[str] = set()
        self._spoken: dict[str, str] | None = None

    def settle(self) -> None:
        self._spoken = {
            uid: f"00000000-0000-4000-8000-{place:012d}" for place, uid in enumerate(sorted(self._heard), 1)
        }

    def knows(self, text: str) -> bool:
        return self._spoken is not None and text in self._spoken

    def __call__(self, uid: str) -> str:
        if self._spoken is None:
            self._heard.add(uid)
            return uid
        return self._spoken[uid]


_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,30}")


class Numbers:
    """Values of labels that somebody compares as numbers: others, in the same order."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._heard: set[int] = set()
        self._spoken: dict[int, int] | None = None

    def hear_key(self, key: str) -> None:
        self._keys.add(key)

    def settle(self) -> None:
        self._spoken = {number: place for place, number in enumerate(sorted(self._heard), 1)}

    def has(self, key: str, value: str) -> bool:
        """Whether that value is one; it has to be written as numbers are, or the text would not come back."""
        return key in self._keys and _NUMBER.fullmatch(value) is not None

    def __call__(self, value: str) -> str:
        if self._spoken is None:
            self._heard.add(int(value))
            return value
        return str(self._spoken[int(value)])
