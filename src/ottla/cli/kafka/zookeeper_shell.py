"""zookeeper-shell: look at and change znodes, one command or line by line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence

from ottla.cli.kafka.keeper import keeper
from ottla.cli.kafka.tool import show
from ottla.zookeeper.errors import NodeError
from ottla.zookeeper.recipes import delete_tree
from ottla.zookeeper.session import CreateMode, ZnodeStat, ZooKeeperSession

USAGE = """usage: zookeeper-shell HOST:PORT[/path] [command]

ls PATH                  the names of a znode's children
get PATH                 its data
stat PATH                its versions and times
create [-e] [-s] PATH DATA
set PATH DATA [VERSION]
delete PATH [VERSION]    (rmr or deleteall: with everything below it)
quit"""
_QUIT = ("quit", "close", "exit")


def run(arguments: Sequence[str]) -> int:
    """One command, or those of standard input."""
    words = list(arguments)
    if not words or words[0] in ("-h", "--help"):
        show(USAGE, is_error=not words)
        raise SystemExit(0 if words else 1)
    connect, *command = words
    show(f"Connecting to {connect}")
    with keeper(connect) as session:
        if command:
            return execute(session, command)
        code = 0
        for line in sys.stdin:
            typed = shlex.split(line)
            if typed and typed[0] in _QUIT:
                break
            code = execute(session, typed) if typed else code
        return code


def execute(session: ZooKeeperSession, words: list[str]) -> int:
    """Do a command; 1 if it fails."""
    name, *arguments = words
    act = _COMMANDS.get(name)
    if act is None:
        show(USAGE.partition("\n\n")[2], is_error=True)
        return 1
    try:
        act(session, arguments)
    except NodeError as error:
        show(str(error), is_error=True)
        return 1
    except (IndexError, ValueError):
        show(USAGE.partition("\n\n")[2], is_error=True)
        return 1
    return 0


def _ls(session: ZooKeeperSession, words: list[str]) -> None:
    show(f"[{', '.join(session.children(words[0]))}]")


def _get(session: ZooKeeperSession, words: list[str]) -> None:
    show(session.get(words[0]).data.decode("utf-8", "replace"))


def _stat(session: ZooKeeperSession, words: list[str]) -> None:
    show(stat_text(session.get(words[0]).stat))


def stat_text(stat: ZnodeStat) -> str:
    """A line for each that we know of a znode."""
    return "\n".join(f"{name} = {getattr(stat, name)}" for name in stat.__dataclass_fields__)


def _create(session: ZooKeeperSession, words: list[str]) -> None:
    flags = {word for word in words if word in ("-e", "-s")}
    path, *rest = [word for word in words if word not in flags]
    mode = {
        frozenset(): CreateMode.PERSISTENT,
        frozenset({"-e"}): CreateMode.EPHEMERAL,
        frozenset({"-s"}): CreateMode.PERSISTENT_SEQUENTIAL,
        frozenset({"-e", "-s"}): CreateMode.EPHEMERAL_SEQUENTIAL,
    }[frozenset(flags)]
    show(f"Created {session.create(path, ' '.join(rest).encode(), mode)}")


def _set(session: ZooKeeperSession, words: list[str]) -> None:
    session.set(words[0], words[1].encode(), *map(int, words[2:3]))


def _delete(session: ZooKeeperSession, words: list[str]) -> None:
    session.delete(words[0], *map(int, words[1:2]))


def _delete_all(session: ZooKeeperSession, words: list[str]) -> None:
    delete_tree(session, words[0])


_COMMANDS: dict[str, Callable[[ZooKeeperSession, list[str]], None]] = {
    "ls": _ls,
    "get": _get,
    "stat": _stat,
    "create": _create,
    "set": _set,
    "delete": _delete,
    "rmr": _delete_all,
    "deleteall": _delete_all,
}
