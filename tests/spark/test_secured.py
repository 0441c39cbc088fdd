"""Spark on a listener with TLS, a login and ACLs: the source, the sink and a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from ottla import BrokerSecurity, EmbeddedBroker, KafkaError, Producer
from ottla.spark import Pipeline
from ottla.spark.data_source import OttlaDataSource

pytestmark = pytest.mark.timeout(280)
ACLS = (
    "app READ,WRITE,DESCRIBE topic orders",
    "app READ,WRITE,DESCRIBE topic copies",
    "app ALL transactional-id ottla-*",
    "app IDEMPOTENT_WRITE cluster",
)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    security = BrokerSecurity(users=("root", "app"), protocols=("SASL_SSL",), acls=ACLS)
    with EmbeddedBroker(security=security) as broker:
        for topic in ("orders", "copies", "secrets"):
            broker.create_topic(topic, 1)
        with Producer(broker.client_settings("root")) as producer:
            for number in range(10):
                producer.send("orders", b'{"id": %d}' % number)
                producer.send("secrets", b"not for app")
        yield broker


def options(broker: EmbeddedBroker) -> dict[str, str]:
    return broker.client_settings("app", form="spark")


def test_a_copy_by_spark_and_a_pipeline(spark: Any, broker: EmbeddedBroker, tmp_path: Path) -> None:
    reader = spark.read.format("ottla").options(**options(broker))
    frame = reader.option("subscribe", "orders").load()
    frame.select("value").write.format("ottla").mode("append").options(**options(broker)).option(
        "topic", "copies"
    ).save()
    form = {
        "source": {"topics": ["copies"], "start": "earliest", **options(broker)},
        "decode": {"format": "json", "schema": "id long"},
        "sink": {"format": "parquet", "path": str(tmp_path / "table")},
    }
    Pipeline.of(form).offline(spark)
    landed = ds.dataset(tmp_path / "table").to_table()["value"].to_pylist()
    assert sorted(value["id"] for value in landed) == list(range(10))


def test_what_the_user_may_not_read_is_refused_at_once(broker: EmbeddedBroker) -> None:
    """A query waited for request.timeout.ms for rights that nobody was about to give."""
    source = OttlaDataSource(
        {**options(broker), "subscribe": "secrets", "kafka.request.timeout.ms": "3600000"}
    )
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        source.reader(source.schema()).partitions()
