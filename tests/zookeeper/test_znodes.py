"""Contents of znodes: what Kafka wrote, what any bytes give, and what survives a round trip."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import ConfigError
from ottla.zookeeper.broker_znodes import (
    BrokerRegistration,
    Controller,
    Endpoint,
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    encode_broker,
    encode_cluster_id,
    encode_controller,
    encode_controller_epoch,
)
from ottla.zookeeper.consumer_znodes import (
    ConsumerRegistration,
    PartitionOwner,
    SubscriptionPattern,
    decode_offset,
    decode_owner,
    decode_registration,
    encode_offset,
    encode_owner,
    encode_registration,
)
from ottla.zookeeper.scala_order import assignment_order
from ottla.zookeeper.topic_znodes import (
    ConfigChange,
    PartitionStateZnode,
    TopicAssignment,
    decode_assignment,
    decode_config,
    decode_config_change,
    decode_election,
    decode_partition_state,
    encode_assignment,
    encode_config,
    encode_config_change,
    encode_partition_state,
)
from ottla.zookeeper.zookeeper_errors import ZnodeError

Codec = tuple[Callable[..., bytes], Callable[[str, bytes], Any]]

BROKER: Codec = (encode_broker, decode_broker)
CONTROLLER: Codec = (encode_controller, decode_controller)
EPOCH: Codec = (encode_controller_epoch, decode_controller_epoch)
CLUSTER: Codec = (encode_cluster_id, decode_cluster_id)
ASSIGNMENT: Codec = (encode_assignment, decode_assignment)
STATE: Codec = (encode_partition_state, decode_partition_state)
CONFIG: Codec = (encode_config, decode_config)
CHANGE: Codec = (encode_config_change, decode_config_change)
REGISTRATION: Codec = (encode_registration, decode_registration)
OWNER: Codec = (encode_owner, decode_owner)
OFFSET: Codec = (encode_offset, decode_offset)
CODECS = [
    BROKER,
    CONTROLLER,
    EPOCH,
    CLUSTER,
    ASSIGNMENT,
    STATE,
    CONFIG,
    CHANGE,
    REGISTRATION,
    OWNER,
    OFFSET,
]

LOCAL = Endpoint("127.0.0.1", 29092)


# Seen on a live Kafka 0.9.0.1 with ZooKeeper 3.4.6 (spec §17).
def shown(value: object) -> str:
    """Return a short name of a parameter that is the same in every process, so without addresses."""
    first = value[0] if isinstance(value, tuple) and value else value
    return getattr(first, "__name__", "") or str(value)[:40]


KAFKA_0_9 = [
    (
        BROKER,
        BrokerRegistration((LOCAL,), 1794770967722),
        '{"jmx_port":-1,"timestamp":"1794770967722","endpoints":["PLAINTEXT://127.0.0.1:29092"],'
        '"host":"127.0.0.1","version":2,"port":29092}',
    ),
    (
        ASSIGNMENT,
        TopicAssignment(dict.fromkeys(range(4), (0,))),
        '{"version":1,"partitions":{"2":[0],"1":[0],"3":[0],"0":[0]}}',
    ),
    (
        STATE,
        PartitionStateZnode(leader=0, leader_epoch=0, controller_epoch=1, isr=(0,)),
        '{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}',
    ),
    (CONFIG, {}, '{"version":1,"config":{}}'),
    (
        REGISTRATION,
        ConsumerRegistration({"mytest": 1}, SubscriptionPattern.WHITE_LIST, 1794770976487),
        '{"version":1,"subscription":{"mytest":1},"pattern":"white_list","timestamp":"1794770976487"}',
    ),
    (OWNER, PartitionOwner("g1_vm-1794770976453-99975d24", 0), "g1_vm-1794770976453-99975d24-0"),
    (CONTROLLER, Controller(0, 1794770967477), '{"version":1,"brokerid":0,"timestamp":"1794770967477"}'),
    (EPOCH, 1, "1"),
    (OFFSET, 250, "250"),
]

# The forms of other versions: 3.9's broker, topic and controller in the order of its keys.
OTHERS = [
    (
        BROKER,
        BrokerRegistration((Endpoint("h", 9092),), 1, version=1, jmx_port=9999),
        '{"jmx_port":9999,"timestamp":"1","host":"h","version":1,"port":9092}',
    ),
    (
        BROKER,
        BrokerRegistration((Endpoint("h", 6667),), 1, version=3, rack="/default-rack"),
        '{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:6667"],"host":"h","version":3,'
        '"port":6667,"rack":"/default-rack"}',
    ),
    (
        BROKER,
        BrokerRegistration((Endpoint("h", 9092),), 1, version=5),
        '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        '"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,"timestamp":"1"}',
    ),
    (
        BROKER,
        BrokerRegistration(
            (Endpoint("h", 9093, "IN", "SSL"), Endpoint("fe80::1", 9094, "OUT", "SASL_SSL")),
            1,
            version=5,
            features={"metadata.version": (1, 7)},
        ),
        '{"features":{"metadata.version":{"min_version":1,"max_version":7}},'
        '"listener_security_protocol_map":{"IN":"SSL","OUT":"SASL_SSL"},'
        '"endpoints":["IN://h:9093","OUT://[fe80::1]:9094"],"jmx_port":-1,"port":-1,"host":null,"version":5,'
        '"timestamp":"1"}',
    ),
    (
        ASSIGNMENT,
        TopicAssignment({0: (1, 2)}, 2, {0: (3,)}, {0: (1,)}),
        '{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}',
    ),
    (
        ASSIGNMENT,
        TopicAssignment({0: (0,)}, 3, topic_id="ZOLr9CLNQjSW70hyIHx6BQ"),
        '{"removing_replicas":{},"partitions":{"0":[0]},"topic_id":"ZOLr9CLNQjSW70hyIHx6BQ",'
        '"adding_replicas":{},"version":3}',
    ),
    (
        CONTROLLER,
        Controller(0, 1, version=2),
        '{"version":2,"brokerid":0,"timestamp":"1","kraftControllerEpoch":-1}',
    ),
    (
        STATE,
        PartitionStateZnode(-1, 4, 2, (1, 2), leader_recovery_state=1),
        '{"controller_epoch":2,"leader":-1,"version":1,"leader_epoch":4,"isr":[1,2],"leader_recovery_state":1}',
    ),
    (CLUSTER, "IOejp_IKSbWbySJc0sRrKw", '{"version":"1","id":"IOejp_IKSbWbySJc0sRrKw"}'),
    (CHANGE, ConfigChange("topics", "t", 0), '"t"'),
    (CHANGE, ConfigChange("topics", "t", 1), '{"version":1,"entity_type":"topics","entity_name":"t"}'),
    (CHANGE, ConfigChange("users", "u/clients/c", 2), '{"version":2,"entity_path":"users/u/clients/c"}'),
    (
        CONFIG,
        {"retention.ms": "1", "k": 'ä"\\'},
        '{"version":1,"config":{"retention.ms":"1","k":"ä\\"\\\\"}}',
    ),
    (
        REGISTRATION,
        ConsumerRegistration({r"a\.b|\"": 2}, SubscriptionPattern.BLACK_LIST, 5),
        r'{"version":1,"subscription":{"a\\.b|\\\"":2},"pattern":"black_list","timestamp":"5"}',
    ),
    (
        REGISTRATION,
        ConsumerRegistration({"b": 1, "a": 2}, SubscriptionPattern.STATIC, 5),
        '{"version":1,"subscription":{"b":1,"a":2},"pattern":"static","timestamp":"5"}',
    ),
]


@pytest.mark.parametrize(("codec", "value", "text"), KAFKA_0_9 + OTHERS, ids=shown)
def test_written_as_kafka_writes_and_read_back(codec: Codec, value: Any, text: str) -> None:
    encode, decode = codec
    assert encode(value) == text.encode()
    assert decode("/p", text.encode()) == value


def test_partitions_stand_in_scalas_order_above_four() -> None:
    assert assignment_order(3) == [2, 1, 0]
    assert assignment_order(10) == [8, 4, 9, 5, 6, 1, 0, 2, 7, 3]
    # Of 48 partitions the 0.10 tools logged 45, 34, 12, … 41, 3, 28 when they made a topic.
    assert assignment_order(48)[:12] == [45, 34, 12, 8, 19, 23, 4, 40, 15, 11, 9, 44]
    assert assignment_order(48)[-7:] == [18, 30, 7, 29, 41, 3, 28]
    assert sorted(assignment_order(1000)) == list(range(1000))


def test_partitions_are_read_in_numeric_order() -> None:
    text = b'{"version":1,"partitions":{"10":[1],"9":[1],"0":[1]}}'
    assert list(decode_assignment("/p", text).partitions) == [0, 9, 10]
    # As Kafka 0.9, which looks at `partitions` alone.
    assert decode_assignment("/p", b'{"partitions":{"0":[1]}}').partitions == {0: (1,)}
    assert decode_assignment("/p", b'{"version":4,"partitions":{"0":[1]},"new":1}').partitions == {0: (1,)}
    assert decode_assignment("/p", encode_assignment(TopicAssignment({7: (1,), 2: (0,)}))).partitions == {
        2: (0,),
        7: (1,),
    }


def test_unknown_fields_are_ignored_everywhere() -> None:
    for (_, decode), value, text in KAFKA_0_9 + OTHERS:
        if text.startswith("{"):
            extended = json.loads(text) | {"from_the_future": {"x": [None]}}
            assert decode("/p", json.dumps(extended).encode()) == value


def test_brokers_of_the_future_are_read_by_field() -> None:
    text = (
        b'{"version":9,"host":"h","port":1,"endpoints":["A://h:1"],'
        b'"listener_security_protocol_map":{"A":"PLAINTEXT"}}'
    )
    broker = decode_broker("/p", text)
    assert broker.plaintext == Endpoint("h", 1, "A")
    assert (broker.version, broker.timestamp_ms) == (9, -1)


def test_a_broker_without_plaintext_is_read_and_has_none() -> None:
    text = b'{"version":2,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","endpoints":["SSL://h:1"]}'
    assert decode_broker("/p", text).plaintext is None


def test_the_oldest_controller_is_a_bare_number() -> None:
    assert decode_controller("/controller", b"3") == Controller(3)


@pytest.mark.parametrize("pattern", ["static", "something", ""])
def test_any_other_pattern_is_static(pattern: str) -> None:
    text = json.dumps({"subscription": {"t": 1, "u": 2}, "pattern": pattern}).encode()
    registration = decode_registration("/p", text)
    assert registration.pattern is SubscriptionPattern.STATIC
    assert registration.timestamp_ms == -1


def test_an_empty_white_list_is_static() -> None:
    text = b'{"version":1,"subscription":{},"pattern":"white_list","timestamp":"1"}'
    assert decode_registration("/p", text) == ConsumerRegistration({}, SubscriptionPattern.STATIC, 1)


REFUSED = [
    (decode_broker, b"", "not JSON"),
    (decode_broker, b"{", "not JSON"),
    (decode_broker, b"\xff", "not UTF-8 at byte 0"),
    (decode_broker, b"[" * 100_000, "not JSON"),
    (decode_broker, b"9" * 5000, "not JSON"),
    (decode_broker, b"[]", "is not a JSON object"),
    (decode_broker, b"{}", "'version' is missing"),
    (decode_broker, b'{"version":0}', "version 0 of this node is not known"),
    (decode_broker, b'{"version":"1"}', "'version' is not an integer"),
    (decode_broker, b'{"version":true}', "'version' is not an integer"),
    (decode_broker, b'{"version":1.0}', "'version' is not an integer"),
    (decode_broker, b'{"version":1}', "neither 'endpoints' nor 'host'"),
    (decode_broker, b'{"version":1,"host":"h"}', "'port' is missing"),
    (decode_broker, b'{"version":1,"host":"h","port":65536}', "outside 0 … 65535"),
    (decode_broker, b'{"version":1,"host":"\\ud800","port":1}', "half a surrogate pair"),
    (decode_broker, b'{"version":2,"endpoints":["h:1"]}', "is not LISTENER://host:port"),
    (decode_broker, b'{"version":2,"endpoints":["A://h:99999"]}', "is not LISTENER://host:port"),
    (decode_broker, b'{"version":2,"endpoints":"A://h:1"}', "'endpoints' is not a list"),
    (decode_broker, b'{"version":1,"host":"h","port":1,"timestamp":"x"}', "'timestamp' is not an integer"),
    (decode_broker, b'{"version":5,"host":"h","port":1,"features":{"f":1}}', "'f' is not a JSON object"),
    (decode_assignment, b'{"version":0,"partitions":{}}', "version 0"),
    (decode_assignment, b'{"version":1}', "'partitions' is missing"),
    (decode_assignment, b'{"version":1,"partitions":{"a":[1]}}', "is not a partition number: 'a'"),
    (decode_assignment, b'{"version":1,"partitions":{"01":[1]}}', "is not a partition number"),
    (decode_assignment, '{"version":1,"partitions":{"²":[1]}}'.encode(), "is not a partition number"),
    (decode_assignment, b'{"version":1,"partitions":{"99999999999999":[1]}}', "is not a partition number"),
    (decode_assignment, b'{"version":1,"partitions":{"0":["1"]}}', "an element of '0' is not an integer"),
    (decode_partition_state, b'{"version":1,"leader":1}', "'leader_epoch' is missing"),
    (decode_partition_state, b'{"version":2}', "version 2"),
    (decode_config, b'{"version":1,"config":{"k":1}}', "'k' is not a string"),
    (decode_config_change, b'{"version":3}', "version 3"),
    (decode_config_change, b'{"version":2,"entity_path":"topics"}', "is not type/name"),
    (decode_election, b'{"version":1,"partitions":[1]}', "is not a JSON object"),
    (decode_controller, b"true", "is not a JSON object"),
    (decode_controller, b"-1", "not a decimal number"),
    (decode_controller_epoch, b"1 ", "not a decimal number"),
    (decode_cluster_id, b'{"version":"1"}', "'id' is missing"),
    (decode_registration, b'{"version":1,"pattern":"static"}', "'subscription' is missing"),
    (decode_registration, b'{"version":1,"subscription":{}}', "'pattern' is missing"),
    (decode_registration, b'{"version":2,"subscription":{},"pattern":"static"}', "version 2"),
    (decode_registration, b'{"subscription":{"t":"1"},"pattern":"static"}', "'t' is not an integer"),
    (decode_registration, b'{"subscription":{"t":-1},"pattern":"static"}', "outside 0"),
    (decode_registration, b'{"subscription":{"a":1,"b":1},"pattern":"white_list"}', "2 patterns where one"),
    (decode_owner, b"", "not a consumer id"),
    (decode_owner, b"nobody", "not a consumer id"),
    (decode_owner, b"-0", "not a consumer id"),
    (decode_owner, b"g_c-x", "not a consumer id"),
    (decode_offset, b"", "not a decimal number"),
    (decode_offset, b"1_0", "not a decimal number"),
    (decode_offset, "٣".encode(), "not a decimal number"),
    (decode_offset, b"-2", "not a decimal number"),
    (decode_offset, b"9223372036854775808", "not a decimal number"),
]


@pytest.mark.parametrize(("decode", "data", "reason"), REFUSED, ids=shown)
def test_what_cannot_be_read_is_one_error_that_names_the_path(
    decode: Callable[[str, bytes], object], data: bytes, reason: str
) -> None:
    with pytest.raises(ZnodeError) as raised:
        decode("/some/path", data)
    assert raised.value.path == "/some/path"
    assert reason in raised.value.reason
    assert str(raised.value).startswith("/some/path: ")
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("encode", "value"),
    [
        (encode_broker, BrokerRegistration((LOCAL,), 1, version=6)),
        (encode_broker, BrokerRegistration((Endpoint("h", 1, "SSL", "SSL"),), 1, version=1)),
        (encode_assignment, TopicAssignment({}, 3)),
        (encode_config_change, ConfigChange("clients", "c", 0)),
        (encode_registration, ConsumerRegistration({"t": 0}, SubscriptionPattern.STATIC)),
        (encode_registration, ConsumerRegistration({"t": 2**31}, SubscriptionPattern.STATIC)),
        (encode_registration, ConsumerRegistration({}, SubscriptionPattern.WHITE_LIST)),
        (encode_offset, -1),
    ],
    ids=shown,
)
def test_what_no_kafka_could_read_is_not_written(encode: Callable[[Any], bytes], value: object) -> None:
    with pytest.raises(ConfigError):
        encode(value)


NODES = KAFKA_0_9 + OTHERS
FIELD_NAMES = sorted({name for *_, text in NODES if text[0] == "{" for name in json.loads(text)})
JSON_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1", "A://h:1", "static", "white_list"])
)
JSON_VALUES = st.recursive(
    JSON_LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*FIELD_NAMES, "0"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=8,
)
JSON_NODES = st.dictionaries(st.sampled_from(FIELD_NAMES), JSON_VALUES).map(
    lambda node: json.dumps(node).encode()
)


@st.composite
def damaged_nodes(draw: st.DrawFn) -> bytes:
    """A real node with one field replaced or some bytes changed."""
    text = draw(st.sampled_from([text for _, _, text in NODES]))
    if text[0] == "{" and draw(st.booleans()):
        node = json.loads(text)
        node[draw(st.sampled_from(sorted(node)))] = draw(JSON_VALUES)
        return json.dumps(node).encode()
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def value_or_path(decode: Callable[[str, bytes], object], data: bytes) -> tuple[object, str]:
    try:
        return decode("/p", data), ""
    except ZnodeError as error:
        return None, error.path


@given(data=st.binary() | JSON_NODES | damaged_nodes())
def test_any_bytes_give_a_value_or_the_one_error(data: bytes) -> None:
    for encode, decode in CODECS:
        value, path = value_or_path(decode, data)
        assert path == ("/p" if value is None else "")
        if value is not None:
            # What was read can be written and read again, unless the rules for writers are stricter.
            with contextlib.suppress(ConfigError):
                decode("/p", encode(value))
