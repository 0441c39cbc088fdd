"""The hint after an unknown name: the name that was probably meant, or nothing.

    >>> did_you_mean("boostrap.servers", ["bootstrap.servers", "client.id"])
    'bootstrap.servers'
    >>> did_you_mean("group", ["group.id", "group.instance.id"])
    'group.id'
    >>> did_you_mean("colour", ["client.id", "linger.ms"]) is None
    True

A wrong hint costs more than none, so a name is only suggested if one of these holds, in this order:

1. It differs only in case, dots, underscores or hyphens.
2. `WELL_KNOWN` says that other Kafka clients or people call it so.
3. It is a likely misspelling of the whole name.
4. Every word of the unknown name is a word of the known one, in the same order, at least half of the known
   name's words are covered, and no other known name fits as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

WELL_KNOWN: Mapping[str, tuple[str, ...]] = {
    "api.version.fallback": ("broker.version",),
    "auto.commit": ("enable.auto.commit", "auto.commit.enable"),
    "batch.num.messages": ("batch.size",),
    "broker": ("bootstrap.servers",),
    "brokers": ("bootstrap.servers",),
    "bootstrap": ("bootstrap.servers",),
    "compression": ("compression.type",),
    "data.dir": ("log.dir", "log.dirs"),
    "fetch.message.max.bytes": ("max.partition.fetch.bytes",),
    "fetch.wait.max.ms": ("fetch.max.wait.ms",),
    "fetch.max.wait.ms": ("fetch.wait.max.ms",),
    "group": ("group.id",),
    "group.name": ("group.id",),
    "host": ("bootstrap.servers", "listeners"),
    "hosts": ("bootstrap.servers",),
    "isolation": ("isolation.level",),
    "log.retention.ms": ("retention.ms",),
    "log.segment.bytes": ("segment.bytes",),
    "max.partition.fetch.bytes": ("fetch.message.max.bytes",),
    "message.max.bytes": ("max.message.bytes",),
    "max.message.bytes": ("message.max.bytes",),
    "offset.reset": ("auto.offset.reset",),
    "partitions": ("num.partitions",),
    "password": ("sasl.password",),
    "queue.buffering.max.ms": ("linger.ms",),
    "reset": ("auto.offset.reset",),
    "retention.ms": ("log.retention.ms",),
    "segment.bytes": ("log.segment.bytes",),
    "servers": ("bootstrap.servers",),
    "socket.timeout": ("request.timeout.ms",),
    "timeout": ("request.timeout.ms",),
    "topic": ("topics", "subscribe"),
    "topics": ("topic", "subscribe"),
    "user": ("sasl.username",),
    "username": ("sasl.username",),
    "zk": ("zookeeper.connect",),
    "zk.connect": ("zookeeper.connect",),
    "zookeeper": ("zookeeper.connect",),
}
"""Other clients' names of a setting → our names for it, in the order in which they are tried."""

SPELLING_MIN = 0.8
"""How alike two whole names must be (SequenceMatcher.ratio) to count as a misspelling."""
WORD_SPELLING_MIN = 0.75
"""The same for two words."""
COVERED_MIN = 0.5
"""The part of a known name's words that an abbreviation has to name."""

_SEPARATORS = r"[._\-\s]+"
_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the name among `known` that was probably meant, or None if no suggestion is likely right."""
    names = list(dict.fromkeys(known))
    squeezed = _squeezed(name)
    for candidate in names:
        if _squeezed(candidate) == squeezed:
            return candidate
    for alias in WELL_KNOWN.get(".".join(_words(name)), ()):
        for candidate in names:
            if _squeezed(candidate) == _squeezed(alias):
                return candidate
    return _misspelled(squeezed, names) or _abbreviated(name, names)


def hint(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return "; did you mean X?" to end an error text with, or `otherwise` if no name is near."""
    near = did_you_mean(name, known)
    return f"; did you mean {near}?" if near is not None else otherwise


def _misspelled(squeezed: str, names: list[str]) -> str | None:
    ratios = {name: _likeness(squeezed, _squeezed(name)) for name in names}
    best = max(ratios, key=lambda name: ratios[name], default="")
    # One letter of a short name is a large part of it: "pth" is "path", "sinc" is "sink".
    least = SPELLING_MIN if len(squeezed) > 4 else 0.7
    return best if best and ratios[best] >= least else None


def _abbreviated(name: str, names: list[str]) -> str | None:
    words = _words(name)
    scores: dict[str, float] = {}
    for candidate in names:
        its_words = _words(candidate)
        covered = len(words) / len(its_words) if its_words else 0.0
        if words and COVERED_MIN <= covered <= 1 and _are_in_order(words, its_words):
            scores[candidate] = covered
    best = max(scores.values(), default=0.0)
    matches = [candidate for candidate, covered in scores.items() if covered == best]
    return matches[0] if len(matches) == 1 else None


def _are_in_order(words: list[str], among: list[str]) -> bool:
    """Whether `among` has all the words, in their order; small misspellings count as equal."""
    rest = iter(among)
    return all(any(_is_like(word, other) for other in rest) for word in words)


def _is_like(word: str, other: str) -> bool:
    return _likeness(word, other) >= WORD_SPELLING_MIN


def _likeness(one: str, other: str) -> float:
    from difflib import SequenceMatcher  # here: a start does not need it

    return SequenceMatcher(None, one, other).ratio()


def _words(name: str) -> list[str]:
    return [word for word in re.split(_SEPARATORS, re.sub(_CAMEL, ".", name).lower()) if word]


def _squeezed(name: str) -> str:
    return re.sub(_SEPARATORS, "", name).lower()
