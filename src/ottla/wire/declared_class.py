"""Classes made from field tables: slotted, with a constructor, comparison and text. What `schema` declares.

The standard library's dataclasses would do, at half a millisecond each; there are 150 messages and parts of
messages, and a broker needs most of them before it can answer. Here only the constructor is generated,
because a decoder calls it for every object; all else is the same for every class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NoReturn, TypeVar

C = TypeVar("C", bound=type)
T = TypeVar("T")

_FRESH = object()
"""Marks a default that is a new object each time."""


class Default:
    """The value of a field that is not given: a shared constant, or a new object each time."""

    __slots__ = ("is_shared", "make")

    def __init__(self, make: Callable[[], object], *, is_shared: bool) -> None:
        self.make = make
        self.is_shared = is_shared


def declared_class(kind: C, defaults: Mapping[str, Default], *, frozen: bool) -> C:
    """Return a class like `kind` whose objects have the fields of `defaults`, in this order."""
    names = tuple(defaults)
    namespace = {
        name: entry
        for name, entry in kind.__dict__.items()
        if name not in defaults and name not in {"__dict__", "__weakref__"}
    }
    namespace |= {"__slots__": names, "__match_args__": names, "__eq__": _equal, "__repr__": _text}
    namespace["__hash__"] = _hash if frozen else None
    if frozen:
        namespace |= {"__setattr__": _refuse, "__delattr__": _refuse}
    made: C = type(kind)(kind.__name__, kind.__bases__, namespace)
    _VALUES[made] = _values_getter(names)
    made.__init__ = _constructor(made, defaults, frozen=frozen)  # type: ignore[misc]
    return made


def replaced(message: T, **changes: object) -> T:
    """Return a copy of an object with some fields changed."""
    kind = type(message)
    names: Sequence[str] = kind.__match_args__  # type: ignore[attr-defined]
    return kind(**(dict(zip(names, _VALUES[kind](message), strict=True)) | changes))


_VALUES: dict[type, Callable[[object], tuple[object, ...]]] = {}


def _values_getter(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda message: (get(message),)


def _constructor(kind: type, defaults: Mapping[str, Default], *, frozen: bool) -> Callable[..., None]:
    """Return `__init__` with a parameter for each field, by position or by name."""
    scope: dict[str, Any] = {"_FRESH": _FRESH}
    parameters, body = [], []
    for name, default in defaults.items():
        scope[f"_default_{name}"] = default.make() if default.is_shared else _FRESH
        scope[f"_make_{name}"] = default.make
        parameters.append(f"{name}=_default_{name}")
        value = name if default.is_shared else f"_make_{name}() if {name} is _FRESH else {name}"
        if frozen:
            scope[f"_set_{name}"] = kind.__dict__[name].__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__(self, {', '.join(parameters)}):\n {lines}", scope)
    made: Callable[..., None] = scope["__init__"]
    return made


def _equal(self: object, other: object) -> bool:
    if type(self) is not type(other):
        return NotImplemented  # type: ignore[no-any-return]
    values = _VALUES[type(self)]
    return bool(values(self) == values(other))


def _hash(self: object) -> int:
    return hash(_VALUES[type(self)](self))


def _text(self: object) -> str:
    kind = type(self)
    names: Sequence[str] = kind.__match_args__  # type: ignore[attr-defined]
    values = zip(names, _VALUES[kind](self), strict=True)
    return f"{kind.__qualname__}({', '.join(f'{name}={value!r}' for name, value in values)})"


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: its objects are shared")
