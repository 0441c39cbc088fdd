"""`ottla completion`: a script with which the shell completes commands, flags and their values.

The script is generated from the parsers when it is printed: completing starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from ottla.cli.kafka.flags import Usage
from ottla.cli.kafka.usage import usage_of
from ottla.cli.main import FOR_PEOPLE, KAFKAS_TOOLS, Command
from ottla.cli.output import print_line

SHELLS = ("bash", "fish", "zsh")


class Words(NamedTuple):
    """What may follow a command: flags, words for its first argument, and the values of each flag."""

    flags: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = {}


def parser() -> argparse.ArgumentParser:
    """`completion` and its argument."""
    parser = argparse.ArgumentParser(prog="ottla completion", description="Print a script for a shell.")
    parser.add_argument("shell", choices=SHELLS)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the script: `source <(ottla completion bash)`."""
    options = parser().parse_args(arguments)
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]
    print_line(write(words_of_commands()))
    return 0


# --- what there is


def words_of_commands() -> dict[str, Words]:
    """The words of every command, by its name."""
    words = {name: _of_people(command) for name, command in FOR_PEOPLE.items()}
    return words | {name: _of_tool(command) for name, command in KAFKAS_TOOLS.items()}


def _of_people(command: Command) -> Words:
    return _of_parser(import_module(command.module).parser())


def _of_parser(parser: argparse.ArgumentParser) -> Words:
    flags: dict[str, tuple[str, ...]] = {}
    actions: tuple[str, ...] = ()
    for action in _all_actions(parser):
        choices = tuple(map(str, action.choices or ()))
        for flag in action.option_strings:
            flags.setdefault(flag, choices)
        if not action.option_strings:
            actions = actions or choices
    return Words(tuple(sorted(flags)), actions, {flag: words for flag, words in flags.items() if words})


def _all_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of a parser and of its subparsers."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _all_actions(below)


def _of_tool(command: Command) -> Words:
    usage = usage_of(command.module)
    if usage is None:
        tool = getattr(import_module(command.module), "TOOL", None)
        usage = None if tool is None else Usage(tool.name, tool.about, tool.flags)
    if usage is not None:
        return Words(tuple(sorted({"--help", *(f"--{flag.name}" for flag in usage.flags)})))
    # kafka-run-class takes classes, zookeeper-shell an address.
    return Words(("--help",), tuple(getattr(import_module(command.module), "CLASSES", ())))


# --- scripts


def _bash(commands: Mapping[str, Words]) -> str:
    flags = "\n".join(
        f'        {name}) words="{" ".join(command.flags)}" ;;' for name, command in commands.items()
    )
    actions = "\n".join(
        f'        {name}) words="{" ".join(command.actions)}" ;;'
        for name, command in commands.items()
        if command.actions
    )
    choices = "\n".join(
        f'        {name}:{flag}) words="{" ".join(words)}" ;;'
        for name, command in commands.items()
        for flag, words in command.choices.items()
    )
    tools = " ".join(name for name in commands if name in KAFKAS_TOOLS)
    return f"""_ottla() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} first=1 name words=
    # Bash takes --format=json apart.
    [[ $current == = ]] && current=
    [[ $before == = ]] && before=${{COMP_WORDS[COMP_CWORD-2]}}
    name=${{COMP_WORDS[0]##*/}}
    if [[ $name == ottla ]]; then
        if (( COMP_CWORD == 1 )); then
            COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$current"))
            return
        fi
        name=${{COMP_WORDS[1]}} first=2
    fi
    name=${{name%.sh}}
    case $name:$before in
{choices}
    esac
    if [[ -z $words && $current == -* ]]; then
        case $name in
{flags}
        esac
    elif [[ -z $words ]] && (( COMP_CWORD == first )); then
        case $name in
{actions}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -o bashdefault -F _ottla ottla {tools}"""


def _zsh(commands: Mapping[str, Words]) -> str:
    # zsh runs completions of bash, with its own menus.
    return f"autoload -Uz bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: Mapping[str, Words]) -> str:
    lines = [f"complete -c ottla -n __fish_use_subcommand -f -a '{' '.join(commands)}'"]
    for name, command in commands.items():
        below = f"complete -c ottla -n '__fish_seen_subcommand_from {name} {name}.sh'"
        starts = [below, *([f"complete -c {name}"] if name in KAFKAS_TOOLS else [])]
        for start in starts:
            lines += [f"{start} {_fish_flag(flag, command.choices.get(flag, ()))}" for flag in command.flags]
            lines += [f"{start} -f -a '{' '.join(command.actions)}'"] if command.actions else []
    return "\n".join(lines)


def _fish_flag(flag: str, choices: Sequence[str]) -> str:
    kind = "-l" if flag.startswith("--") else "-s"
    values = f" -x -a '{' '.join(choices)}'" if choices else ""
    return f"{kind} {flag.lstrip('-')}{values}"
