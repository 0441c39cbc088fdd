"""How administration fails, and how nothing is lost of a call that fails in part.

One convention for all calls. The form of the argument decides, not the number of things in it:

    describe_topics("orders")               one thing:    its result, or its own error is raised
    describe_topics(["orders", "clicks"])   many things:  {name: result}, or AdminErrors with `errors` of
                                                          those that failed and `results` of the others

A mapping is many things as well. What concerns the whole call (no broker can be reached, the brokers have no
such call) is raised as it is, in both forms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from ottla.model.errors import ConfigError, KafkaError, OttlaError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ERRORS_SHOWN = 5


class Unsupported(OttlaError):
    """Neither the brokers nor ZooKeeper can do it; the message says what is missing, and the remedy."""


class AdminErrors(OttlaError):
    """Some of many things failed: `errors` by name, and in `results` what the others gave."""

    def __init__(self, errors: Mapping[Any, OttlaError], results: Mapping[Any, Any]) -> None:
        self.errors: Mapping[Any, OttlaError] = MappingProxyType(dict(errors))
        self.results: Mapping[Any, Any] = MappingProxyType(dict(results))
        shown = "; ".join(_shown(name, error) for name, error in list(errors.items())[:ERRORS_SHOWN])
        more = f"; and {len(errors) - ERRORS_SHOWN} more" if len(errors) > ERRORS_SHOWN else ""
        super().__init__(f"{len(errors)} of {len(errors) + len(results)} failed: {shown}{more}")


def _shown(name: object, error: OttlaError) -> str:
    text = str(error)
    return text if str(name).lower() in text.lower() else f"{name}: {text}"


def all_results(
    outcomes: Mapping[K, V | OttlaError], failed: Mapping[Any, OttlaError] | None = None
) -> dict[K, V]:
    """The results. Raises AdminErrors if any outcome is an error, or something has failed before."""
    errors = dict(failed or {})
    errors |= {name: one for name, one in outcomes.items() if isinstance(one, OttlaError)}
    results = {name: one for name, one in outcomes.items() if not isinstance(one, OttlaError)}
    if errors:
        raise AdminErrors(errors, results)
    return results


def only(outcomes: Mapping[K, V | OttlaError]) -> V:
    """The result of the one thing that was asked for. Raises its error."""
    (outcome,) = outcomes.values()
    if isinstance(outcome, OttlaError):
        raise outcome
    return outcome


def answered(
    asked: K | Iterable[K], kind: type[K], do: Callable[[list[K]], Mapping[K, V | OttlaError]]
) -> V | dict[K, V]:
    """By the convention: the result for one of `kind`, a dict for many of them."""
    if isinstance(asked, kind):
        return only(do([asked]))
    return all_results(do(many(asked, kind)))  # type: ignore[arg-type]  # not of `kind`, so many


def many(asked: Iterable[K], kind: type[K]) -> list[K]:
    """Each once. Raises ConfigError for what is of another kind."""
    return list(dict.fromkeys(checked(asked, kind)))


def checked(asked: Iterable[V], kind: type[V]) -> list[V]:
    """All of them. Raises ConfigError for what is of another kind."""
    listed = list(asked)
    for one in listed:
        if not isinstance(one, kind):
            raise ConfigError(f"{one!r:.200} is given where a {kind.__name__} is wanted")
    return listed


def each(names: Iterable[K], do: Callable[[K], V]) -> dict[K, V | OttlaError]:
    """The outcome of each, one after the other."""
    outcomes: dict[K, V | OttlaError] = {}
    for name in names:
        try:
            outcomes[name] = do(name)
        except OttlaError as error:
            outcomes[name] = error
    return outcomes


def told_error(code: int, message: str | None, what: str) -> KafkaError:
    """A broker's error with its own words, where these say more than the code."""
    # Our own broker writes the code and its text behind its words.
    said = (message or "").removesuffix(str(KafkaError(code))).rstrip(": ")
    return KafkaError(code, f"{what} ({said})" if said not in ("", what) else what)
