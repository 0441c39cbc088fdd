"""Runs a tool: parses its flags, does its work, and reports errors as Kafka does."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ottla.cli.kafka.flags import Flag, Options, Usage, Value, WrongFlags, parse, switch
from ottla.model.errors import OttlaError

_FLAG_WIDTH, _DOC_WIDTH = 38, 62
_HELP = switch("help", "Print usage information.")
_VERSION = switch("version", "Display Kafka version.")


class Tool(NamedTuple):
    """A tool: its description, flags, action, and the beginning of its error messages."""

    name: str
    about: str
    flags: tuple[Flag, ...]
    act: Callable[[Options], int]
    errors_begin: str = ""


def tool_of(usage: Usage, act: Callable[[Options], int]) -> Tool:
    """A tool whose flags are in `ottla.cli.kafka.usage`."""
    return Tool(usage.name, usage.about, usage.flags, act, usage.errors_begin)


class ToolRefused(OttlaError):
    """Ends a tool with a message of Kafka's on standard error and an exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def run_tool(tool: Tool, arguments: Sequence[str]) -> int:
    """Run a tool and return its exit code."""
    show_help(tool, arguments)
    try:
        options = parse((*tool.flags, _HELP, _VERSION), arguments)
        return tool.act(options)
    except WrongFlags as error:
        show(f"{tool.errors_begin}{error}\n`{tool.name} --help` lists the options.", is_error=True)
        return 1
    except ToolRefused as error:
        show(str(error), is_error=True)
        return error.code


def show_help(tool: Tool | Usage, arguments: Sequence[str]) -> None:
    """Print the help and raise SystemExit if there are no arguments or --help is one of them."""
    if not arguments or {"--help", "-help"} & set(arguments):
        show(usage(tool), is_error=not arguments)
        raise SystemExit(0 if arguments else 1)


def usage(tool: Tool | Usage) -> str:
    """The help text: all flags with their meaning."""
    lines = [f"usage: {tool.name} [options]", "", tool.about, ""]
    for flag in sorted((*tool.flags, _HELP), key=lambda flag: flag.name):
        wanted = {Value.NONE: "", Value.NEEDED: " <value>", Value.OPTIONAL: " [value]"}[flag.value]
        head = f"  --{flag.name}{wanted}"
        doc = textwrap.wrap(flag.doc, _DOC_WIDTH) or [""]
        if len(head) >= _FLAG_WIDTH:
            lines.append(head)
            head = ""
        lines.append(f"{head:{_FLAG_WIDTH}}{doc[0]}")
        lines += [" " * _FLAG_WIDTH + line for line in doc[1:]]
    return "\n".join(lines)


def require(options: Options, *names: str) -> None:
    """Raise WrongFlags if a required flag is missing."""
    for name in names:
        if not options.has(name):
            raise WrongFlags(f'Missing required argument "[{name}]"')


def one_action(options: Options, names: Iterable[str], message: str) -> str:
    """The only one of these flags that was given. Raises WrongFlags if there is none or several."""
    given = options.any_of(*names)
    if len(given) != 1:
        raise WrongFlags(message)
    return given[0]


def show(text: str, *, is_error: bool = False, ends_line: bool = True) -> None:
    """Print a line, or a part of one."""
    print(text, file=sys.stderr if is_error else sys.stdout, end="\n" if ends_line else "")
