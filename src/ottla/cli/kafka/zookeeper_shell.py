"""zookeeper-shell: shows and changes znodes, by one command or line by line, in the text of ZooKeeper 3.8."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence

from ottla.cli.kafka.tool import show
from ottla.model.errors import ConfigError
from ottla.zookeeper.recipes import delete_tree
from ottla.zookeeper.session import CreateMode, ZnodeStat, ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import BadVersion, NodeError, NodeExists, NoNode, NotEmpty

USAGE = """usage: zookeeper-shell HOST:PORT[/path] [command]

ls [-s] [-R] PATH        the names of a znode's children
get [-s] PATH            its data
stat PATH                its versions
create [-e] [-s] PATH [DATA]
set [-v VERSION] PATH DATA
delete [-v VERSION] PATH
deleteall PATH           with everything below it; rmr is its old name
quit"""
_QUIT = ("quit", "close", "exit")
_WATCHED = "\nWATCHER::\n\nWatchedEvent state:{} type:None path:null"
_ERRORS = {
    NoNode: "Node does not exist: {}",
    NodeExists: "Node already exists: {}",
    NotEmpty: "Node not empty: {}",
    BadVersion: "version No is not valid : {}",
}


def run(arguments: Sequence[str]) -> int:
    """Run one command, or those of standard input."""
    words = list(arguments)
    if not words or words[0] in ("-h", "--help"):
        show(USAGE, is_error=not words)
        raise SystemExit(0 if words else 1)
    from ottla.cli.kafka.zookeeper_session import zookeeper_session

    connect, *command = words
    show(f"Connecting to {connect}")
    if not command:
        show("Welcome to ZooKeeper!\nJLine support is disabled")
    with zookeeper_session(connect) as session:
        show(_WATCHED.format("SyncConnected"))
        if command:
            return execute(session, command)
        code = 0
        for line in sys.stdin:
            typed = shlex.split(line)
            if typed and typed[0] in _QUIT:
                break
            code = execute(session, typed) if typed else code
    show(_WATCHED.format("Closed"))
    return code


def execute(session: ZooKeeperSession, words: list[str]) -> int:
    """Run a command; returns 1 if it fails."""
    name, *arguments = words
    act = _COMMANDS.get(name)
    if act is None:
        show(f"{_commands()}\nCommand not found: Command not found {name}", is_error=True)
        return 1
    try:
        act(session, arguments)
    except NodeError as error:
        show(_ERRORS.get(type(error), str(error)).format(error.path), is_error=True)
    except ConfigError as error:
        show(str(error), is_error=True)
    except (IndexError, ValueError):
        show(next(line for line in _commands().splitlines() if line.startswith(name)), is_error=True)
    else:
        return 0
    return 1


def _commands() -> str:
    return USAGE.partition("\n\n")[2]


def _path(words: list[str]) -> str:
    if not words[0].startswith("/"):
        raise ConfigError("Path must start with / character")
    return words[0]


def _flagged(words: list[str], *flags: str) -> tuple[set[str], list[str]]:
    return {word for word in words if word in flags}, [word for word in words if word not in flags]


def _versioned(words: list[str]) -> tuple[list[str], list[int]]:
    """The arguments without `-v VERSION`, and the version if it is given."""
    if "-v" not in words:
        return words, []
    at = words.index("-v")
    return words[:at] + words[at + 2 :], [int(words[at + 1])]


def _ls(session: ZooKeeperSession, words: list[str]) -> None:
    flags, rest = _flagged(words, "-s", "-R")
    path = _path(rest)
    if "-R" in flags:
        show("\n".join(_below(session, path)))
        return
    show(f"[{', '.join(sorted(session.children(path)))}]")
    if "-s" in flags:
        show(stat_text(session.get(path).stat))


def _below(session: ZooKeeperSession, path: str) -> Iterator[str]:
    yield path
    for name in sorted(session.children(path)):
        yield from _below(session, f"{path.rstrip('/')}/{name}")


def _get(session: ZooKeeperSession, words: list[str]) -> None:
    flags, rest = _flagged(words, "-s")
    node = session.get(_path(rest))
    show(node.data.decode("utf-8", "replace"))
    if flags:
        show(stat_text(node.stat))


def _stat(session: ZooKeeperSession, words: list[str]) -> None:
    show(stat_text(session.get(_path(words)).stat))


def stat_text(stat: ZnodeStat) -> str:
    """The known fields of a znode's state, one per line; without times and ACLs."""
    return (
        f"cZxid = {stat.created_zxid:#x}\nmZxid = {stat.modified_zxid:#x}\n"
        f"cversion = {stat.children_version}\ndataVersion = {stat.version}\n"
        f"ephemeralOwner = {stat.ephemeral_owner:#x}\ndataLength = {stat.data_bytes}\n"
        f"numChildren = {stat.children_count}"
    )


def _create(session: ZooKeeperSession, words: list[str]) -> None:
    flags, rest = _flagged(words, "-e", "-s")
    mode = {
        frozenset(): CreateMode.PERSISTENT,
        frozenset({"-e"}): CreateMode.EPHEMERAL,
        frozenset({"-s"}): CreateMode.PERSISTENT_SEQUENTIAL,
        frozenset({"-e", "-s"}): CreateMode.EPHEMERAL_SEQUENTIAL,
    }[frozenset(flags)]
    made = session.create(_path(rest), " ".join(rest[1:]).encode(), mode)
    show(f"Created {made}", is_error=True)


def _set(session: ZooKeeperSession, words: list[str]) -> None:
    rest, version = _versioned(words)
    session.set(_path(rest), rest[1].encode(), *(version or map(int, rest[2:3])))


def _delete(session: ZooKeeperSession, words: list[str]) -> None:
    rest, version = _versioned(words)
    session.delete(_path(rest), *(version or map(int, rest[1:2])))


def _delete_all(session: ZooKeeperSession, words: list[str]) -> None:
    delete_tree(session, _path(words))


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
