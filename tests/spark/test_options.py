"""Options: Spark's names in any case, wrong ones refused with what would be right."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client.client_config import FOREIGN_PROPERTIES
from ottla.client.security_config import SECURITY_PROPERTIES
from ottla.fetching.fetch_config import OffsetReset
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.admission import BatchLimits
from ottla.spark.options import FORBIDDEN, SOURCE_OPTIONS, WITHOUT_EFFECT
from ottla.spark.positions import AtOffsets, AtTime, AtTimes, Edge, Partitions, TopicPattern, Topics
from ottla.spark.range_planner import TaskSizes
from ottla.spark.source_options import Mode, SourceOptions, source_options
from tools.spark_parity.cases import cases

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def parsed(mode: Mode = Mode.BATCH, /, **options: str) -> SourceOptions:
    return source_options({**BASE, "subscribe": "t", **options}, mode)


def test_names_are_case_insensitive_and_kafka_settings_reach_the_client() -> None:
    got = source_options(
        {
            "KAFKA.bootstrap.SERVERS": "a:1,b:2",
            "SUBSCRIBE": "x, y,x",
            "MaxOffsetsPerTrigger": "100",
            "kafka.fetch.min.bytes": "7",
            "kafka.client.id": "me",
        },
        Mode.STREAM,
    )
    assert got.subscription == Topics(("x", "y"))
    assert [address.host for address in got.client.bootstrap] == ["a", "b"]
    assert got.client.client_id == "me"
    assert not got.client.allow_auto_create_topics
    assert got.fetch.fetch_min_bytes == 7
    assert got.limits.max_offsets == 100


def test_defaults_are_those_of_sparks_connector() -> None:
    batch, stream = parsed(Mode.BATCH), parsed(Mode.STREAM)
    assert (batch.starting, batch.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream.starting is Edge.LATEST
    assert stream.limits == BatchLimits(None, None, 15 * 60 * 1000)
    assert stream.fails_on_data_loss
    assert stream.fetch.auto_offset_reset is OffsetReset.NONE
    assert not stream.fetch.include_headers


def test_every_way_to_name_what_is_read() -> None:
    assigned = source_options({**BASE, "assign": '{"b":[1,0],"a":[2]}'}, Mode.BATCH)
    assert assigned.subscription == Partitions(
        (TopicAndPartition("a", 2), TopicAndPartition("b", 0), TopicAndPartition("b", 1))
    )
    pattern = source_options({**BASE, "subscribePattern": "ord.*"}, Mode.BATCH).subscription
    assert isinstance(pattern, TopicPattern)
    assert pattern.matches("orders")
    assert pattern.matches("my-orders")
    assert not pattern.matches("returns")


def test_settings_of_java_that_people_paste() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    pasted = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f"{module} username=\"alice\" password='s3c=ret';",
        "kafka.client.rack": "r1",
        "kafka.client.dns.lookup": "use_all_dns_ips",
        "kafka.metrics.recording.level": "INFO",
    }
    security = parsed(**pasted).client.security
    assert (security.username, security.password) == ("alice", "s3c=ret")
    for text, why in (
        ("", "needs sasl.username and sasl.password, or sasl.jaas.config"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "is not for sasl.mechanism=SCRAM-SHA-256"),
        (f"{module};", "needs sasl.username and sasl.password"),
        (f'{module} username="alice" password="s3c;', "is a quote missing"),
    ):
        with pytest.raises(ConfigError, match=why) as refused:
            parsed(**{**pasted, "kafka.sasl.jaas.config": text})
        assert "s3c" not in str(refused.value)


PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
ROW = re.compile(r"\| (`kafka\..*?) \| (works|no effect|refused)(?:: (.*?))? \|$")
EXAMPLES = {
    "security.protocol": "SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required;",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens",
    "sasl.oauthbearer.method": "oidc",
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
    "OAuthBearerLoginCallbackHandler",
    "sasl.oauth.token.provider": "my.tokens:token",
    "sasl.aws.msk.iam.signer": "my.tokens:signed",
    "client.dns.lookup": "use_all_dns_ips",
    "isolation.level": "read_committed",
    "check.crcs": "true",
    "ssl.truststore.type": "JKS",
    "ssl.keystore.type": "PKCS12",
    "ssl.endpoint.identification.algorithm": "https",
}


def told() -> dict[str, tuple[str, str]]:
    """What the page says of each option: the verdict, and the reason if it is refused."""
    rows = [found for line in PAGE.read_text().splitlines() if (found := ROW.match(line))]
    names = [(name.strip("`").removeprefix("kafka."), row) for row in rows for name in row[1].split(", ")]
    return {name: (row[2], row[3] or "") for name, row in names}


@pytest.mark.parametrize(("name", "verdict"), [(name, verdict) for name, (verdict, _) in told().items()])
def test_the_table_of_pasted_settings_is_true(
    name: str, verdict: str, caplog: pytest.LogCaptureFixture
) -> None:
    value = EXAMPLES.get(name, "1000")
    more = {"kafka.sasl.oauthbearer.client.credentials.client.id": "a"} if "endpoint.url" in name else {}
    more |= {"kafka.sasl.oauthbearer.client.credentials.client.secret": "b"} if more else {}
    if verdict == "refused":
        with pytest.raises(ConfigError) as refused:
            parsed(**{f"kafka.{name}": value})
        assert told()[name][1] in str(refused.value)
        return
    parsed(**{f"kafka.{name}": value, **more})
    assert (name in WITHOUT_EFFECT) == (verdict == "no effect")
    assert (f"kafka.{name}" in caplog.text) == (verdict == "no effect" and name != "group.id")


def test_the_table_has_every_setting_that_is_not_just_taken() -> None:
    security = {row.name for row in SECURITY_PROPERTIES}
    special = {*FORBIDDEN, *WITHOUT_EFFECT, *FOREIGN_PROPERTIES, *security}
    assert special - told().keys() == {"ssl.cafile", "api.version"}, "these are other clients'"


def test_the_page_of_options_has_every_case() -> None:
    """`python -m tools.spark_parity` makes it, by running Spark's own connector, too."""
    page = (Path(__file__).parents[2] / "docs" / "spark-options.md").read_text()
    for case in cases():
        assert f"| `{case.option}` | {case.what} | " in page
    ours_alone = {"group.id", "zookeeper.connect", "columns", "maxBytesPerTask", "minRecordsPerTask"}
    ours_alone |= {"dropRepeatedRows", "repeatedRowsLookback"}
    assert {row.name for row in SOURCE_OPTIONS} - {case.option for case in cases()} == ours_alone


def test_positions_take_precedence_as_in_spark() -> None:
    place = TopicAndPartition("t", 0)
    both = {"startingOffsets": '{"t":{"0":-2}}', "startingOffsetsByTimestamp": '{"t":{"0":9}}'}
    assert parsed(startingOffsets='{"t":{"0":-2}}').starting == AtOffsets({place: -2})
    assert parsed(**both).starting == AtTimes({place: 9})
    assert parsed(**both, startingTimestamp="5").starting == AtTime(5)
    assert parsed(endingOffsets='{"t":{"0":-1}}').ending == AtOffsets({place: -1})
    assert parsed(endingOffsets='{"t":{"0":4}}', endingTimestamp="6").ending == AtTime(6)
    assert parsed(Mode.STREAM, startingOffsets="EARLIEST").starting is Edge.EARLIEST


def test_sizes_and_durations() -> None:
    got = parsed(
        Mode.STREAM,
        minPartitions="4",
        maxRecordsPerPartition="1000",
        minRecordsPerTask="0",
        minOffsetsPerTrigger="5",
        maxOffsetsPerTrigger="10",
        maxTriggerDelay="2m",
    )
    assert got.task_sizes == TaskSizes(4, 1000, 0)
    assert got.limits == BatchLimits(10, 5, 120_000)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "t", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "t", "kafka.fetch.min.byte": "1"}, "fetch.min.bytes"),
        ({"subscribe": "t", "bootstrap.servers": "x:1"}, "kafka.bootstrap.servers"),
        ({"subscribe": "t", "flavour": "sweet"}, "known are"),
        ({}, "there is none"),
        ({"subscribe": "t", "subscribePattern": "t"}, "subscribe and subscribePattern"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"assign": '{"t":"0"}'}, "a list of numbers"),
        ({"assign": "t"}, "JSON is wanted"),
        ({"subscribe": "t", "startingOffsets": "newest"}, "JSON is wanted"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-3}}'}, "it must be -2 or more"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":"5"}}'}, "whole numbers"),
        ({"subscribe": "t", "startingOffsets": '{"t":5}'}, "partitions are wanted"),
        ({"subscribe": "t", "startingOffsets": "{}"}, "no partition"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "read nothing"),
        ({"subscribe": "t", "endingOffsets": "earliest"}, "read nothing"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "it must be -1 or more"),
        ({"subscribe": "t", "startingOffsets": "group"}, "group.id"),
        ({"subscribe": "t", "zookeeper.connect": "z:1"}, "group.id"),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"subscribe": "t", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is above"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"subscribe": "t", "kafka.enable.auto.commit": "true"}, "group.id"),
        ({"subscribe": "t", "kafka.value.deserializer": "x"}, "cast the column"),
        ({"subscribe": "t", "kafka.sasl.jaas.config": "x"}, "class of a login module"),
        ({"subscribe": "t", "dropRepeatedRows": "true", "minPartitions": "2"}, "minPartitions"),
    ],
)
def test_wrong_options_are_refused_with_a_remedy(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        source_options({**BASE, **options}, Mode.BATCH)
    assert words in str(refused.value)


def test_a_stream_has_no_end_and_a_client_needs_brokers() -> None:
    with pytest.raises(ConfigError, match="has no end"):
        parsed(Mode.STREAM, endingOffsets="latest")
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is not set"):
        source_options({"subscribe": "t"}, Mode.STREAM)


def test_settings_of_javas_machinery_are_accepted() -> None:
    got = parsed(**{"kafka.max.poll.records": "5", "kafka.group.id": "acl", "groupIdPrefix": "x"})
    assert got.group_id == "acl"
    assert not got.commits_to_group
    assert parsed(**{"group.id": "shadow"}).commits_to_group


def test_options_go_to_executors() -> None:
    got = parsed(startingOffsets='{"t":{"0":-2}}')
    assert pickle.loads(pickle.dumps(got)) == got


@pytest.mark.parametrize("package", ["pyspark_ottla", "pyspark_ottla_log"])
def test_finding_the_formats_is_light(package: str) -> None:
    """Spark imports them in many short-lived processes: no compiler, no client, no ZooKeeper."""
    heavy = "[m for m in ('numba', 'kazoo', 'ottla.client.pool', 'ottla.producer') if m in sys.modules]"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, {package}; print({package}.DefaultSource.name(), {heavy})"],
        capture_output=True,
        text=True,
        check=True,
    )
    name = package.removeprefix("pyspark_").replace("_", "-")
    assert run.stdout.strip() == f"{name} []"
