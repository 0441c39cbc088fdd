"""`ottla doctor`: checks whether names, addresses and brokers can be reached, and says why not."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable, Sequence
from functools import partial

from ottla.cli.connection_options import properties_of, without
from ottla.cli.output import Cell, OutputRows, Parser, new_parser, run_command
from ottla.cli.profile import profile_path
from ottla.model.errors import OttlaError

CONNECT_S = 5.0


def parser() -> Parser:
    """`doctor` and its options."""
    return new_parser("doctor", "Check names, addresses and every broker: what cannot be reached, and why.")


def run(arguments: Sequence[str]) -> int:
    """Run all checks; returns 1 if something is wrong."""
    return run_command(parser(), arguments, _act)


class _Findings:
    """The results of the checks, in order."""

    def __init__(self) -> None:
        self.rows: list[tuple[Cell, ...]] = []

    def check(self, name: str, look: Callable[[], str]) -> bool:
        """Run a check; note its result or its error."""
        try:
            self.rows.append((name, True, look(), None))
        except (OttlaError, OSError) as error:
            self.rows.append((name, False, None, str(error)))
            return False
        return True


def _act(options: argparse.Namespace) -> OutputRows:
    findings = _Findings()
    path = profile_path()
    findings.check("profiles", lambda: f"{path}{'' if path.exists() else ' is not there, which is fine'}")
    properties = properties_of(options)
    zookeeper = str(properties.get("zookeeper.connect", ""))
    if zookeeper:
        findings.check(f"zookeeper {zookeeper}", lambda: _zookeeper(zookeeper))
    if "bootstrap.servers" in properties:
        for address in str(properties["bootstrap.servers"]).split(","):
            findings.check(f"address {address.strip()}", partial(_reached, address.strip()))
        _brokers(findings, without(properties, "zookeeper.connect"))
    return OutputRows(("check", "ok", "found", "error"), findings.rows)


def _reached(text: str) -> str:
    from ottla.model.address import parse_address

    address = parse_address(text)
    try:
        with socket.create_connection((address.host, address.port), CONNECT_S) as connection:
            return f"answers at {connection.getpeername()[0]}"
    except socket.gaierror as error:
        raise OSError(
            f"the name {address.host!r} is not known here ({error.strerror}): a typo, or DNS"
        ) from error
    except ConnectionRefusedError as error:
        raise OSError(f"nothing listens on port {address.port} there: is the broker up?") from error
    except TimeoutError as error:
        raise OSError(f"no answer within {CONNECT_S:.0f} s: a firewall, or the machine is down") from error


def _brokers(findings: _Findings, properties: dict[str, object]) -> None:
    from ottla.cli.kafka.broker_links import linked
    from ottla.model.cluster_view import BrokerNode

    brokers: list[BrokerNode] = []

    def ask() -> str:
        with linked(properties) as (pool, nodes):
            brokers.extend(nodes)
            versions = pool.to_any().versions
            era = versions.generation or "0.10 or later"
            return f"{len(nodes)} broker{'s' * (len(nodes) != 1)}, of Kafka {era}"

    if findings.check("cluster", ask):
        for node in brokers:
            text = f"{node.host}:{node.port}"
            # What brokers advertise is where clients continue, whatever address they began with.
            findings.check(f"broker {node.broker_id} at {text}", partial(_reached, text))


def _zookeeper(connect: str) -> str:
    from ottla.cli.kafka.zookeeper_session import zookeeper_session
    from ottla.zookeeper import paths
    from ottla.zookeeper.recipes import children_if_present

    with zookeeper_session(connect) as session:
        names = children_if_present(session, paths.BROKER_IDS)
        return f"answers; brokers {', '.join(sorted(names)) or 'none'} are registered"
