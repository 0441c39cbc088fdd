"""Results and errors of Admin's calls, also of calls that fail in part.

One rule for all calls; it depends on the form of the argument, not on the number of things in it:

    describe_topics("orders")               one thing:    its result, or its own error is raised
    describe_topics(["orders", "clicks"])   many things:  {name: result}, or AdminErrors with `errors` of
                                                          those that failed and `results` of the others

A mapping is many things too. An error of the whole call (no broker can be reached, the brokers have no such
call) is raised as it is, in both forms.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.model.errors import AdminErrors, ConfigError, KafkaError, OttlaError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def all_results(
    outcomes: Mapping[K, V | OttlaError], failed: Mapping[Any, OttlaError] | None = None
) -> dict[K, V]:
    """Return the results. Raises AdminErrors if any outcome is an error or `failed` is not empty."""
    errors = dict(failed or {})
    errors |= {name: error for name, error in outcomes.items() if isinstance(error, OttlaError)}
    results = {name: result for name, result in outcomes.items() if not isinstance(result, OttlaError)}
    if errors:
        raise AdminErrors(errors, results)
    return results


def only(outcomes: Mapping[K, V | OttlaError]) -> V:
    """Return the result of the only thing, or raise its error."""
    (outcome,) = outcomes.values()
    if isinstance(outcome, OttlaError):
        raise outcome
    return outcome


async def answered(
    things: K | Iterable[K], kind: type[K], do: Callable[[list[K]], Awaitable[Mapping[K, V | OttlaError]]]
) -> V | dict[K, V]:
    """Apply the rule: return a result for one thing of type `kind`, a dict for many."""
    if isinstance(things, kind):
        return only(await do([things]))
    return all_results(await do(many(things, kind)))  # type: ignore[arg-type]  # not one of `kind`, but several


def many(things: Iterable[K], kind: type[K]) -> list[K]:
    """Return each thing once. Raises ConfigError if one has another type."""
    return list(dict.fromkeys(checked(things, kind)))


def checked(things: Iterable[V], kind: type[V]) -> list[V]:
    """Return all things. Raises ConfigError if one has another type."""
    listed = list(things)
    for thing in listed:
        if not isinstance(thing, kind):
            raise ConfigError(f"{thing!r:.200} is given where a {kind.__name__} is expected")
    return listed


async def each(names: Iterable[K], do: Callable[[K], Awaitable[V]]) -> dict[K, V | OttlaError]:
    """Call `do` for each name; return the outcomes."""
    outcomes: dict[K, V | OttlaError] = {}
    for name in names:
        try:
            outcomes[name] = await do(name)
        except OttlaError as error:
            outcomes[name] = error
    return outcomes


def response_error(code: int, message: str | None, subject: str) -> KafkaError:
    """Make an error of a broker's code, with its message if that says more than the code."""
    # The embedded broker appends the code and its text to its message.
    detail = (message or "").removesuffix(str(KafkaError(code))).rstrip(": ")
    return KafkaError(code, f"{subject} ({detail})" if detail not in ("", subject) else subject)
