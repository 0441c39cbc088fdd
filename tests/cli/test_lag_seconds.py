"""`ottla lag` in every format tells the age of the record at the committed offset, to the second."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition
from tests.cli.kafka.conftest import ours

ERROR_S = 1.0
HOUR_S = 3_600
AGES_S = {0: 3 * HOUR_S, 1: HOUR_S}
"""Of the next record of each partition; of a third partition everything is read."""


def of_json(printed: str) -> dict[int, float]:
    return {row["partition"]: row["seconds"] for row in json.loads(printed)["rows"]}


def of_tsv(printed: str) -> dict[int, float]:
    names, *rows = (line.split("\t") for line in printed.splitlines())
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return {int(row["partition"]): float(row["seconds"]) for row in found}


def of_prometheus(printed: str) -> dict[int, float]:
    families = {family.name: family for family in text_string_to_metric_families(printed)}
    samples = families["kafka_consumergroup_lag_seconds"].samples
    return {int(sample.labels["partition"]): sample.value for sample in samples}


@pytest.mark.parametrize(
    ("form", "read"), [("json", of_json), ("tsv", of_tsv), ("prometheus", of_prometheus)]
)
def test_the_age_of_the_next_record(form: str, read: Callable[[str], dict[int, float]]) -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        broker.create_topic("orders", 3)
        began_s = time.time()
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for partition, age_s in {**AGES_S, 2: 2 * HOUR_S}.items():
                for age_of_record_s in (age_s + HOUR_S, age_s):
                    written_ms = int((began_s - age_of_record_s) * 1000)
                    producer.send("orders", b"v", partition=partition, timestamp_ms=written_ms)
        offsets = {TopicAndPartition("orders", number): offset for number, offset in enumerate((1, 1, 2))}
        admin.alter_group_offsets("billing", offsets)
        asked_s = time.time() - began_s
        run = ours("lag", "billing", "-b", broker.bootstrap, "--format", form)
        told_s = time.time() - began_s
    assert run.code == 0
    found = read(run.printed)
    assert found.keys() == {0, 1, 2}
    assert found[2] == 0.0
    for partition, age_s in AGES_S.items():
        assert age_s + asked_s - ERROR_S <= found[partition] <= age_s + told_s + ERROR_S
