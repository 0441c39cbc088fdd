"""Who is compared, and how one question is put to all of them."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from benchmarks.broker.processes import Contender, Missing, Server, free_port, started
from benchmarks.harness import Better, Case, Measure, Peer, version_of

MeasureOf = Callable[[Server], Measure]


@contextlib.contextmanager
def ottla(*settings: str) -> Iterator[Server]:
    """Our broker in a process of its own, on an empty data directory, with settings as name=value."""
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        port = free_port()
        command = ottla_command(port, directory)
        for setting in settings:
            command += ["--set", setting]
        with started("ottla", version_of("ottla") or "", command, port) as server:
            yield server


def ottla_command(port: int, directory: str) -> list[str]:
    """The command that starts our broker. It stores format 0 as it comes, as Kafka 0.9 does."""
    command = [sys.executable, "-m", "ottla", "broker", "start", "--set", "log.message.format.version=0.9.0"]
    return [*command, "--port", str(port), "--data-dir", directory]


def compared(
    name: str,
    unit: str,
    measure_of: MeasureOf,
    ours: Server,
    peers: Sequence[Contender],
    *,
    rounds: int,
    target: float | None = None,
    better: Better = Better.MORE,
    limit: float | None = None,
    is_warmed: bool = True,
) -> Case:
    """The same measurement of ours and of each peer; `limit` is a value that ours has to reach by itself."""
    others = [_peer(peer, measure_of, target) for peer in peers]
    if limit is not None:
        others.append(Peer("what it may be", measure=lambda: limit, target=1))
    return Case(name, unit, measure_of(ours), others, rounds, better, is_warmed)


def counted(count: int, noun: str) -> str:
    """A number of things, in English."""
    return f"{count} {noun}{'s' * (count != 1)}"


def _peer(contender: Contender, measure_of: MeasureOf, target: float | None) -> Peer:
    if isinstance(contender, Missing):
        return Peer(contender.name, contender.version, note=contender.reason, target=target)
    return Peer(contender.name, contender.version, measure_of(contender), target=target)
