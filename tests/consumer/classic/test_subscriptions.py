"""What members subscribe to: identities, Java's regular expressions, filters, registrations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ottla.consumer.classic.connector import ConsumerConnector
from ottla.consumer.classic.identity import (
    ConsumerThreadId,
    consumer_id_string,
    generated_consumer_id,
    thread_ids,
)
from ottla.consumer.classic.java_regex import compile_java
from ottla.consumer.classic.topic_count import (
    Blacklist,
    StaticTopicCount,
    Whitelist,
    WildcardTopicCount,
    topic_count_of,
)
from ottla.model.errors import ConfigError
from ottla.zookeeper.consumer_znodes import decode_registration, encode_registration

VERDICTS = [
    json.loads(line) for line in Path(__file__).with_name("java_regex.jsonl").read_text().splitlines()
]
"""What java.util.regex (Java 17) says: the names that a pattern matches, None where it is no pattern."""
NAMES = sorted({name for verdict in VERDICTS for name in verdict["matches"] or ()})


def test_a_generated_id_has_kafkas_form() -> None:
    assert generated_consumer_id("vm", 1794770976453, 0x99975D24_00000001) == "vm-1794770976453-99975d24"
    assert generated_consumer_id("vm", 1, 0xABC) == "vm-1-abc"
    connectors = [ConsumerConnector(group_id="g", zookeeper_connect="127.0.0.1:1") for _ in range(2)]
    assert connectors[0].consumer_id != connectors[1].consumer_id
    assert re.fullmatch(r"g_.+-\d{13}-[0-9a-f]{1,8}", connectors[0].consumer_id)


def test_a_given_id_is_taken_as_it_is() -> None:
    assert consumer_id_string("g", "one") == "g_one"


@pytest.mark.parametrize(("group_id", "consumer_id"), [("", "a"), ("g/h", "a"), ("g", "a/b")])
def test_ids_that_would_be_other_nodes_paths_are_refused(group_id: str, consumer_id: str) -> None:
    with pytest.raises(ConfigError):
        consumer_id_string(group_id, consumer_id)


def test_threads_are_ordered_by_their_texts() -> None:
    threads = thread_ids("g_a", 12)
    assert [thread.thread for thread in sorted(threads)] == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    assert ConsumerThreadId("g_a", 10) < ConsumerThreadId("g_a", 2) < ConsumerThreadId("g_b", 0)
    assert max(threads) == ConsumerThreadId("g_a", 9)
    assert str(threads[10]) == "g_a-10"


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict["pattern"])
def test_regular_expressions_mean_what_they_mean_in_java(verdict: dict[str, object]) -> None:
    pattern = str(verdict["pattern"])
    if verdict["matches"] is None or "(?x)" in pattern:
        with pytest.raises(ConfigError, match=re.escape(repr(pattern))):
            compile_java(pattern)
    else:
        compiled = compile_java(pattern)
        assert [name for name in NAMES if compiled.fullmatch(name)] == sorted(verdict["matches"])  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("raw", "regex"),
    [(" orders , payments ", "orders|payments"), ("'a.*'", "a.*"), ("\"'a b'\"", "ab"), ("a'b", "a'b")],
)
def test_filters_are_normalised_as_kafka_does(raw: str, regex: str) -> None:
    assert Whitelist(raw).regex == regex


def test_lists_allow_whole_names_and_no_internal_topics() -> None:
    internal = ["__consumer_offsets", "__transaction_state", "__share_group_state"]
    topics = ["orders", "orders-eu", "payments", *internal]
    white, black = Whitelist("orders"), Blacklist("orders")
    assert [topic for topic in topics if white.is_topic_allowed(topic)] == ["orders"]
    assert [topic for topic in topics if black.is_topic_allowed(topic)] == ["orders-eu", "payments"]
    assert Whitelist(".*").is_topic_allowed("__consumer_offsets", exclude_internal_topics=False)


@pytest.mark.parametrize(
    "count",
    [
        StaticTopicCount({"orders": 2, "payments": 1}),
        StaticTopicCount({}),
        WildcardTopicCount(Whitelist(r"a\.b|\p{Alpha}+"), 3),
        WildcardTopicCount(Blacklist('x"y'), 1),
    ],
)
def test_a_registration_is_read_as_it_was_written(count: StaticTopicCount | WildcardTopicCount) -> None:
    data = encode_registration(count.registration(17))
    read = topic_count_of(decode_registration("/p", data))
    assert read.registration(17) == count.registration(17)


def test_a_console_consumers_registration_of_kafka_0_9() -> None:
    """Golden: written by Kafka 0.9.0.1's console consumer."""
    golden = b'{"version":1,"subscription":{"mytest":1},"pattern":"white_list","timestamp":"1794770976487"}'
    count = topic_count_of(decode_registration("/p", golden))
    assert count == WildcardTopicCount(Whitelist("mytest"), 1)
    assert encode_registration(count.registration(1794770976487)) == golden
    assert count.stream_counts(["mytest", "other"], exclude_internal_topics=True) == {"mytest": 1}


@pytest.mark.parametrize(
    "streams", [{"orders": 0}, {"orders": True}, {"a/b": 1}, {"orders": "2"}, {"orders": 2**31 - 1}]
)
def test_topic_counts_that_make_no_sense_are_refused(streams: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        StaticTopicCount(streams)
