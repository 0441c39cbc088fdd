"""Members of a share group and the broker are killed at random: no record is lost, none is given out after
its accept was confirmed, and confirmed releases count after a restart.

OTTLA_SOAK=1 kills many more.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from ottla import Admin, TopicAndPartition
from ottla.admin import NewTopic
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.real_clients import send
from tests.broker.share_groups.killed_member import GROUP, TOPIC
from tests.broker.share_groups.share_member import configure_group
from tests.forked_processes import ForkedProcesses
from tests.scale import SEED, sized
from tests.waiting import wait_for

PATIENCE_S = 120.0


class Scale(NamedTuple):
    """How much of it. `broker_kills` of the kills hit the broker, the others a member."""

    members: int
    partitions: int
    records: int
    kills: int
    broker_kills: int


SCALE = sized(Scale(3, 2, 1_500, 5, 2), Scale(8, 6, 60_000, 60, 15))
Place = tuple[int, int]
"""A partition and an offset."""


def told(directory: Path) -> list[dict[str, Any]]:
    """What all members have written so far; the last line of one that was killed may be torn."""
    lines = [line for path in directory.glob("*.jsonl") for line in path.read_text().splitlines(True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def check(rows: list[dict[str, Any]], scale: Scale) -> None:
    """Hold the history against the promises of a share group."""
    given: dict[Place, list[tuple[int, int, str]]] = defaultdict(list)
    confirmed: dict[str, dict[Place, list[tuple[int, int]]]] = {
        answer: defaultdict(list) for answer in ("accept", "release")
    }
    for row in rows:
        for offset, count in zip(row.get("offsets", ()), row.get("counts", ()), strict=True):
            place = (row["partition"], offset)
            if row["what"] == "given":
                given[place].append((row["at"], count, row["answer"]))
            else:
                confirmed[row["what"]][place].append((row["at"], count))
    offsets = scale.records // scale.partitions
    for place in ((partition, offset) for partition in range(scale.partitions) for offset in range(offsets)):
        deliveries = given[place]
        assert any(answer == "accept" for _, _, answer in deliveries), f"{place} is done, and nobody read it"
        accepts = confirmed["accept"][place]
        assert len(accepts) <= 1, f"{place} was accepted twice: {accepts}"
        for at, count in accepts:
            later = [one for one in deliveries if one[0] > at]
            assert not later, f"{place} was accepted in delivery {count}, and given out again: {later}"
        for at, count in confirmed["release"][place]:
            counts = [one[1] for one in deliveries if one[0] > at]
            assert all(one > count for one in counts), f"{place}: delivery {count} released, then {counts}"
        most = len(deliveries) + scale.kills  # a member that is killed cannot tell what it got
        assert all(1 <= count <= most for _, count, _ in deliveries), f"{place}: {deliveries}"


def test_no_record_is_lost_and_none_comes_back(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    settings = {"group.share.heartbeat.interval.ms": "500"}
    data = tmp_path / "data"
    broker = BrokerProcess(data, settings)
    port, bootstrap = broker.port, f"127.0.0.1:{broker.port}"
    lives = [broker]
    try:
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, SCALE.partitions, 1))
        configure_group(bootstrap, GROUP, share_delivery_count_limit="10")
        numbers = [b"%d" % number for number in range(SCALE.records // SCALE.partitions)]
        for partition in range(SCALE.partitions):
            send(bootstrap, TOPIC, numbers, partition=partition)
        names = iter(range(SCALE.members + SCALE.kills))
        members = ForkedProcesses("tests.broker.share_groups.killed_member", bootstrap, str(tmp_path))
        with closing(members):
            for _ in range(SCALE.members):
                members.start(f"{next(names)}")
            victims = ["broker"] * SCALE.broker_kills + ["member"] * (SCALE.kills - SCALE.broker_kills)
            chance.shuffle(victims)
            for number, victim in enumerate(victims):
                wanted = SCALE.records * (number + 1) // (len(victims) + 2)
                wait_for(
                    lambda wanted=wanted: _accepted(tmp_path) >= wanted, f"{wanted} are done", PATIENCE_S
                )
                time.sleep(chance.uniform(0, 0.1))  # somewhere in the middle of whatever they do
                if victim == "member":
                    members.send(chance.choice(members.running), signal.SIGKILL)
                    members.start(f"{next(names)}")
                else:
                    lives[-1].kill()
                    lives.append(BrokerProcess(data, settings, arguments=("--port", str(port))))
            with Admin(bootstrap_servers=bootstrap) as admin:
                places = [TopicAndPartition(TOPIC, number) for number in range(SCALE.partitions)]

                def is_done() -> bool:
                    found = admin.share_group_offsets(GROUP)
                    return all(place in found and found[place].start == len(numbers) for place in places)

                wait_for(is_done, lambda: f"{admin.share_group_offsets(GROUP)}", PATIENCE_S)
                assert {found.lag for found in admin.share_group_offsets(GROUP).values()} == {0}
        check(told(tmp_path), SCALE)
        assert not lives[-1].surprises
    finally:
        for one in lives:
            one.__exit__(None, None, None)


def _accepted(directory: Path) -> int:
    return sum(len(row["offsets"]) for row in told(directory) if row["what"] == "accept")
