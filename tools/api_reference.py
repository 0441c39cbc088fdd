"""Print docs/reference/api.md: every public name with its signature and its docstring, read from the code."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Any

HEAD = """# API reference

Made by `python tools/api_reference.py` from signatures and docstrings; a test keeps it current. These modules
are public; what is not here is private and may change. Settings of the clients: [settings.md](settings.md).

The examples are those of `help()`. Their broker is at 127.0.0.1:9092 (`ottla broker start` runs one); its
topic `orders` has the three records tea, coffee and cake, of which the group `billing` has read the first.

"""
MODULES = (
    "ottla",
    "ottla.aio",
    "ottla.producer",
    "ottla.consumer.coordinated",
    "ottla.consumer.partition",
    "ottla.consumer.classic",
    "ottla.consumer.simple",
    "ottla.offsets",
    "ottla.admin",
    "ottla.mirror",
    "ottla.spark",
)
"""Each name is described where it comes first."""
SPECIAL_METHODS = ("__iter__", "__next__", "__len__", "__getitem__")
ADDRESS = re.compile(r"<[^=]* at 0x[0-9a-f]+>")
"""A default that is a function or an object: not the same in two runs."""
ENUM_MEMBER = re.compile(r"<([\w.]+): [^>]*>")
FORWARD = re.compile(r"ForwardRef\('([^']*)'\)")
QUOTED_ANNOTATION = re.compile(r"(: |-> )'([^']*)'")


def page() -> str:
    """The whole page."""
    described: dict[int, str] = {}
    sections = [_module(import_module(name), described) for name in MODULES]
    contents = "".join(f"- [`{name}`](#{_anchor(name)})\n" for name in MODULES)
    return HEAD + contents + "".join(sections)


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", name.lower())


def _module(module: ModuleType, described: dict[int, str]) -> str:
    text = f"\n## `{module.__name__}`\n\n{_first_paragraph(module)}\n"
    elsewhere = []
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if not _is_described(value):
            continue
        if home := described.get(id(value)):
            elsewhere.append(f"[`{name}`](#{_anchor(home)})")
            continue
        shown = f"aio.{name}" if module.__name__ == "ottla.aio" else name
        described[id(value)] = shown
        text += _entry(shown, value)
    return text + (f"\nAlso here: {', '.join(elsewhere)}.\n" if elsewhere else "")


def _is_described(value: object) -> bool:
    """Not constants and not other names of Python's types, such as ConsumerIdString, which is `str`."""
    return (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__ != "builtins"


def _entry(name: str, value: Any) -> str:
    if not inspect.isclass(value):
        return f"\n### {name}\n\n```text\n{name}{_signature(value)}\n```\n\n{_doc(value)}\n"
    if issubclass(value, BaseException):
        return f"\n### {name}\n\nAn error; a kind of `{value.__bases__[0].__name__}`. {_doc(value)}\n"
    if issubclass(value, Enum):
        members = ", ".join(f"`{member.name}`" for member in value)
        return f"\n### {name}\n\n{_doc(value)}\n\nOne of {members}.\n"
    text = f"\n### {name}\n\n```text\n{name}{_signature(value)}\n```\n\n{_class_doc(value)}\n"
    members = "".join(_member(name, member) for name, member in _members(value))
    return text + (f"\n| | |\n|---|---|\n{members}" if members else "")


def _class_doc(value: type) -> str:
    doc = _doc(value)
    return "" if is_dataclass(value) and doc.startswith(f"{value.__name__}(") else doc


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, also of base classes of ours; in the order of the source."""
    seen: set[str] = set()
    for owner in value.__mro__:
        if not owner.__module__.startswith("ottla"):
            continue
        for name, member in vars(owner).items():
            public = not name.startswith("_") or name in SPECIAL_METHODS
            if public and name not in seen and _is_member(member):
                seen.add(name)
                yield name, member


def _is_member(member: object) -> bool:
    return inspect.isroutine(member) or isinstance(member, property | classmethod | staticmethod)


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        shown, doc = name, _doc(member)
    else:
        function = getattr(member, "__func__", member)
        waits = "async " if inspect.iscoroutinefunction(function) else ""
        signature = _signature(function, bound=not isinstance(member, staticmethod))
        shown, doc = f"{waits}{name}{signature}", _doc(function)
    cell = re.sub(r"\s+", " ", _without_examples(doc)).replace("|", "\\|")
    return f"| `{shown.replace('|', chr(92) + '|')}` | {cell} |\n"


def _without_examples(doc: str) -> str:
    return "\n".join(line for line in doc.splitlines() if not line.startswith("    "))


def _signature(value: Any, *, bound: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    text = FORWARD.sub(r"\1", str(signature.replace(parameters=parameters)))
    return QUOTED_ANNOTATION.sub(r"\1\2", ENUM_MEMBER.sub(r"\1", ADDRESS.sub("…", text)))


def _doc(value: object) -> str:
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return "\n\n".join(map(_paragraph, text.split("\n\n")))


def _paragraph(text: str) -> str:
    """A paragraph of a docstring; one that is an example becomes a block of code."""
    if not text.lstrip().startswith(">>>"):
        return text
    return "\n".join(f"    {line}" for line in inspect.cleandoc(text).splitlines())


def _first_paragraph(module: ModuleType) -> str:
    return inspect.cleandoc(module.__doc__ or "").split("\n\n")[0]


if __name__ == "__main__":
    sys.stdout.write(page())
