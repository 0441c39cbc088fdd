"""Print docs/state-machines.md: every state machine, drawn from the table that the code runs on.

A test keeps the page current. In a diagram several events that lead the same way share one arrow; events that
leave a machine where it is are not drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from ottla.broker.groups.coordinator import state as group_state
from ottla.broker.groups.coordinator.consumer_groups import member as consumer_member
from ottla.broker.security import sasl_session
from ottla.broker.share_groups.core import record_state
from ottla.broker.transactions.coordinator import state as coordinated_state
from ottla.consumer.classic import gate, ownership, rebalancer
from ottla.consumer.coordinated import broker_assigned_state, member_state
from ottla.consumer.reading.health import Health
from ottla.producer import transaction_state
from ottla.wire import client_connection, negotiation, server_connection

HEAD = """# State machines

Made by `python tools/state_diagrams.py` from the tables that the code runs on; a test keeps it current.
Events that leave a machine in its state are not drawn.
"""

Step = tuple[Enum, Enum, Enum]


class Machine(NamedTuple):
    """A table with its name, the name of the module that holds it, and a sentence about it."""

    title: str
    table: str
    text: str
    start: Enum
    steps: tuple[Step, ...]


def _by_state(table: Mapping[Any, Mapping[Any, Any]]) -> tuple[Step, ...]:
    """The steps of a table: state → event → next state."""
    return tuple((state, event, after) for state, row in table.items() for event, after in row.items())


def _by_pair(table: Mapping[Any, Any]) -> tuple[Step, ...]:
    """The steps of a table: (state, event) → next state."""
    return tuple((state, event, after) for (state, event), after in table.items())


MACHINES = (
    Machine(
        "A client's connection",
        "ottla/wire/client_connection.py: TRANSITIONS",
        "One connection to a broker, from the first byte to the last.",
        client_connection.ClientState.NEW,
        _by_state(client_connection.TRANSITIONS),
    ),
    Machine(
        "A broker's connection",
        "ottla/wire/server_connection.py: TRANSITIONS",
        "The other end of it.",
        server_connection.ServerState.OPEN,
        _by_state(server_connection.TRANSITIONS),
    ),
    Machine(
        "A client's login",
        "ottla/broker/security/sasl_session.py: TRANSITIONS",
        "SASL on one connection of a broker: which requests are answered when.",
        sasl_session.SaslState.START,
        _by_state(sasl_session.TRANSITIONS),
    ),
    Machine(
        "Version discovery",
        "ottla/wire/negotiation.py: TRANSITIONS",
        "What a client asks a broker of unknown version. A state is the request that waits for its answer.",
        negotiation.Probe.NOTHING,
        _by_state(negotiation.TRANSITIONS),
    ),
    Machine(
        "A group at its coordinator",
        "ottla/broker/groups/coordinator/state.py: TRANSITIONS",
        "What ListGroups and DescribeGroups show.",
        group_state.GroupState.EMPTY,
        _by_state(group_state.TRANSITIONS),
    ),
    Machine(
        "A member of a consumer group at its coordinator",
        "ottla/broker/groups/coordinator/consumer_groups/member.py: TRANSITIONS",
        "How a member of a group of KIP-848 moves to its target assignment.",
        consumer_member.ReconcilingState.STABLE,
        _by_state(consumer_member.TRANSITIONS),
    ),
    Machine(
        "A record in a share group",
        "ottla/broker/share_groups/core/record_state.py: TRANSITIONS",
        "From its first delivery on; acknowledged and archived records are done.",
        record_state.RecordState.AVAILABLE,
        _by_state(record_state.TRANSITIONS),
    ),
    Machine(
        "A transactional producer",
        "ottla/producer/transaction_state.py: TRANSITIONS",
        "A `Producer` with a transactional.id.",
        transaction_state.ProducerTransactionState.UNINITIALIZED,
        _by_state(transaction_state.TRANSITIONS),
    ),
    Machine(
        "A transactional id at its coordinator",
        "ottla/broker/transactions/coordinator/state.py: TRANSITIONS",
        "What ListTransactions and DescribeTransactions show.",
        coordinated_state.TransactionState.EMPTY,
        _by_state(coordinated_state.TRANSITIONS),
    ),
    Machine(
        "A member of a coordinator group",
        "ottla/consumer/coordinated/member_state.py: TRANSITIONS",
        "The member of a `GroupConsumer`.",
        member_state.MemberState.JOINING,
        _by_state(member_state.TRANSITIONS),
    ),
    Machine(
        "A member of a consumer group",
        "ottla/consumer/coordinated/broker_assigned_state.py: TRANSITIONS",
        "The member of a `GroupConsumer` with group.protocol=consumer.",
        member_state.MemberState.JOINING,
        _by_state(broker_assigned_state.TRANSITIONS),
    ),
    Machine(
        "A member of a ZooKeeper group",
        "ottla/consumer/classic/rebalancer.py: HEALTH_TABLE",
        "The health of a `ConsumerConnector`. It shows SUSPENDED while ZooKeeper is not reached.",
        Health.JOINING,
        _by_pair(rebalancer.HEALTH_TABLE),
    ),
    Machine(
        "The delivery gate of a ZooKeeper group",
        "ottla/consumer/classic/gate.py: GATE_TABLE",
        "Whether streams may hand out messages: a lease that every answer of ZooKeeper renews.",
        gate.GateState.SHUT,
        _by_pair(gate.GATE_TABLE),
    ),
    Machine(
        "A partition in a ZooKeeper group",
        "ottla/consumer/classic/ownership.py: OWNERSHIP_TABLE",
        "One partition, as a member of the group sees it.",
        ownership.OwnershipState.NOT_OURS,
        _by_pair(ownership.OWNERSHIP_TABLE),
    ),
)


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_section(machine) for machine in MACHINES)


def _section(machine: Machine) -> str:
    lines = "\n".join(_diagram(machine))
    return (
        f"\n## {machine.title}\n\n{machine.text} Table: `src/{machine.table}`.\n\n```mermaid\n{lines}\n```\n"
    )


def _diagram(machine: Machine) -> Iterator[str]:
    yield "stateDiagram-v2"
    for state in _states(machine):
        label = state.value if isinstance(state.value, str) else state.name.lower()
        yield f'    state "{label}" as {state.name}'
    yield f"    [*] --> {machine.start.name}"
    events: dict[tuple[Enum, Enum], list[str]] = {}
    for state, event, after in machine.steps:
        if state is not after:
            events.setdefault((state, after), []).append(str(event.value))
    for (state, after), names in events.items():
        yield f"    {state.name} --> {after.name}: {' / '.join(sorted(names))}"
    for state in _states(machine):
        if all(before is not state for before, _ in events):
            yield f"    {state.name} --> [*]"


def _states(machine: Machine) -> Iterable[Enum]:
    """The states that occur, in the order in which their class lists them."""
    occurring = {state for step in machine.steps for state in (step[0], step[2])}
    return [state for state in type(machine.start) if state in occurring]


if __name__ == "__main__":
    sys.stdout.write(page())
