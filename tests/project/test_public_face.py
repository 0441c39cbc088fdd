"""Every public class follows the same rules: time, offsets, reading, commits, groups, settings, serializers,
forgotten objects, internals.

Each test is a rule for all classes in `ottla.__all__`; an exception to it is named, with its reason. What
commits and positions do is tested with their classes, in tests/consumer; errors and the examples in `help()`
in tests/project/test_public_names.py.
"""

from __future__ import annotations

import ast
import gc
import inspect
import re
import textwrap
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import ottla
from ottla import (
    Admin,
    BatchDelivery,
    ConfigError,
    ConsumerConnector,
    Delivery,
    EmbeddedBroker,
    GroupConsumer,
    KafkaStream,
    LeaderConsumer,
    Mirror,
    OffsetLedger,
    PartitionConsumer,
    PartitionReader,
    Producer,
    Replay,
    Scan,
    ShareConsumer,
    SimpleConsumer,
    aio,
    replay,
)
from ottla.fetching.chunk_queue import FetchedDataChunk
from tests.waiting import wait_for

READERS: list[type] = [GroupConsumer, PartitionConsumer, PartitionReader, Replay, KafkaStream, ShareConsumer]
"""What messages are read from."""

POSITIONED: list[type] = [GroupConsumer, ConsumerConnector, PartitionConsumer, PartitionReader]
"""What can be moved to another offset. A Replay has its bounds; a KafkaStream is moved by its connector."""

CONSUMERS: list[type] = [*READERS, ConsumerConnector, SimpleConsumer, LeaderConsumer]

IN_MILLISECONDS = {
    "Producer.send(timestamp_ms)": "a point in time, as records have it",
    "Producer.send_many(timestamps_ms)": "a point in time, as records have it",
    "PartitionReader(timeout_ms)": "made by PartitionConsumer.consume_partition",
    "SimpleConsumer(so_timeout)": "an argument of Scala's SimpleConsumer",
    "LeaderConsumer(so_timeout)": "an argument of Scala's SimpleConsumer",
    "LeaderConsumer.fetch(max_wait)": "a call of Scala's FetchRequestBuilder",
    "FetchRequestBuilder.max_wait(max_wait)": "a call of Scala's FetchRequestBuilder",
}
"""Parameters that are not in seconds."""

WAITING = {
    "batches",
    "chunks",
    "errors",
    "exception",
    "failures",
    "flush",
    "has_next",
    "messages",
    "poll",
    "result",
}
"""Methods that wait for records."""

TAKES_OFFSETS = {
    "ConsumerConnector.seek(offset)",
    "GroupConsumer.seek(offset)",
    "PartitionConsumer.seek(offset)",
    "PartitionConsumer.consume_partition(offset)",
    "PartitionReader.seek(offset)",
    "Admin.delete_records(before)",
    "Admin.list_offsets(at)",
    "Admin.list_offsets(partitions)",
    "Admin.reset_group_offsets(to)",
    "OffsetLedger.start(initial)",
    "replay(since)",
    "replay(until)",
    "scan(since)",
    "scan(until)",
    "Replay(bounds)",
}

ATTRIBUTES: dict[type, str] = {
    Admin: """
        abort_transaction alter_configs alter_group_offsets alter_share_group_offsets close
        create_partitions create_topics delete_group_offsets delete_groups delete_records
        delete_share_group_offsets delete_topics describe_cluster describe_configs describe_groups
        describe_producers describe_topics describe_transactions find_hanging_transactions group_lag
        group_offsets groups_named list_config_resources list_groups list_offsets list_topics
        list_transactions reset_group_offsets share_group_offsets terminate_transaction
        alter_client_quotas alter_user_scram_credentials create_acls delete_acls describe_acls
        describe_client_quotas describe_user_scram_credentials
    """,
    BatchDelivery: "done failures result",
    ConsumerConnector: """
        assignment check_brokers close commit commit_offsets consumer_id create_message_streams
        create_message_streams_by_filter group_id health lost_sessions metrics network_error offsets_for_times
        retry run seek set_consumer_rebalance_listener shutdown skip stopped tail
    """,
    Delivery: "done exception result",
    EmbeddedBroker: """
        aio bootstrap bootstrap_at clear_faults client_settings close create_topic data_dir delay delete_topic
        drop fail heal is_running listeners move_leader port start start_broker stop stop_broker
    """,
    GroupConsumer: """
        assignment check_brokers chunks close commit commit_async committed group_metadata health membership
        messages metrics network_error offsets_for_times pause poll position resume retry seek skip
        stopped subscribe tail
    """,
    KafkaStream: "chunks has_next is_closed messages",
    LeaderConsumer: "close fetch get_offsets_before leader topic_partition",
    Mirror: "metrics run stop stopped",
    PartitionConsumer: """
        check_brokers chunks close consume_partition health messages metrics network_error offsets_for_times
        partitions readers retry seek skip stopped tail
    """,
    PartitionReader: """
        async_close chunks close errors failure high_watermark is_closed is_paused lag messages partition
        pause position resume retry seek skip stopped tail topic topic_partition
    """,
    Producer: """
        abort begin check_brokers close commit flush hand_over init_transactions send send_batch
        send_many send_offsets send_whole transaction
    """,
    Replay: "batches chunks close errors messages progress ranges schema to_table topic",
    Scan: "close is_local progress ranges schema steps to_reader to_table",
    ShareConsumer: """
        accept assignment check_brokers chunks close commit delivery_count health messages network_error poll
        reject release renew subscribe
    """,
    SimpleConsumer: "close commit_offsets fetch fetch_offsets get_offsets_before host port topic_metadata",
}
"""All that is public of these classes. A new name here is a promise to users."""


MADE_WITH_SETTINGS: dict[str, tuple[Callable[..., object], str, str]] = {
    "Admin": (Admin, "cleint.id", "client.id"),
    "ConsumerConnector": (ConsumerConnector, "zookeper.connect", "zookeeper.connect"),
    "EmbeddedBroker": (EmbeddedBroker, "num.partition", "num.partitions"),
    "EmbeddedBroker.aio": (EmbeddedBroker.aio, "num.partition", "num.partitions"),
    "GroupConsumer": (partial(GroupConsumer, "orders"), "sesion.timeout.ms", "session.timeout.ms"),
    "LeaderConsumer": (partial(LeaderConsumer, "kafka:9092", "orders", 0), "cleint.id", "client_id"),
    "PartitionConsumer": (PartitionConsumer, "fetch.min.byte", "fetch.min.bytes"),
    "Producer": (Producer, "linger.mss", "linger.ms"),
    "ShareConsumer": (partial(ShareConsumer, "orders"), "max.pol.records", "max.poll.records"),
    "SimpleConsumer": (partial(SimpleConsumer, "kafka", 9092), "buffer.sise", "buffer_size"),
    "replay": (partial(replay, "orders"), "fetch.min.byte", "fetch.min.bytes"),
    "scan": (partial(ottla.scan, "orders"), "fetch.min.byte", "fetch.min.bytes"),
    "sql": (partial(ottla.sql, "select 1"), "fetch.min.byte", "fetch.min.bytes"),
}
"""What has settings, a name that is spelled wrong, and the right one."""


def used(client: Any, call: Callable[[Any], object]) -> Any:
    call(client)
    return client


def forget(kept: list[Any]) -> None:
    kept.clear()
    gc.collect()


USED: dict[str, Callable[[EmbeddedBroker], Any]] = {
    "Admin": lambda broker: used(Admin(bootstrap_servers=broker.bootstrap), Admin.list_topics),
    "GroupConsumer": lambda broker: used(
        GroupConsumer("orders", group_id="readers", bootstrap_servers=broker.bootstrap),
        lambda consumer: consumer.poll(0),
    ),
    "LeaderConsumer": lambda broker: used(
        LeaderConsumer(broker.bootstrap, "orders", 0), LeaderConsumer.get_offsets_before
    ),
    "PartitionConsumer": lambda broker: used(
        PartitionConsumer(bootstrap_servers=broker.bootstrap),
        lambda consumer: consumer.consume_partition("orders", 0, "earliest"),
    ),
    "Producer": lambda broker: used(
        Producer(bootstrap_servers=broker.bootstrap), lambda producer: producer.send("orders", b"a")
    ),
    "Replay": lambda broker: used(
        replay("orders", bootstrap_servers=broker.bootstrap), lambda past: past.ranges
    ),
    "ShareConsumer": lambda broker: used(
        ShareConsumer("orders", group_id="sharers", bootstrap_servers=broker.bootstrap),
        lambda consumer: consumer.poll(0),
    ),
    "SimpleConsumer": lambda broker: used(
        SimpleConsumer("127.0.0.1", broker.port), SimpleConsumer.topic_metadata
    ),
}
"""Makes objects that have connections or threads, by the name of their class."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        yield broker


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Constructors, public methods and functions of `ottla`, by the name that a user writes."""
    for name in ottla.__all__:
        value = getattr(ottla, name)
        if inspect.isfunction(value):
            yield name, value
        elif isinstance(value, type) and not issubclass(value, BaseException):
            yield from public_methods(value)


def public_methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(kind):
        method = getattr(kind, name)
        if name == "__init__" and inspect.isfunction(method):
            yield kind.__name__, method
        elif not name.startswith("_") and (inspect.isfunction(method) or inspect.ismethod(method)):
            yield f"{kind.__name__}.{name}", method


PARAMETERS: dict[str, inspect.Parameter] = {
    f"{call}({parameter.name})": parameter
    for call, function in public_calls()
    for parameter in inspect.signature(function).parameters.values()
}
"""All parameters of the public face, as "GroupConsumer.seek(offset)"."""


def test_time_is_in_seconds() -> None:
    names = re.compile(r".*(_ms|so_timeout|max_wait)\)")
    assert {name for name in PARAMETERS if names.fullmatch(name)} == set(IN_MILLISECONDS)
    for name, parameter in PARAMETERS.items():
        if re.search(r"timeout\)$", name) and name not in IN_MILLISECONDS:
            assert parameter.annotation in {"float", "float | None"}, name


def test_every_wait_can_be_limited() -> None:
    calls = {name: call for name, call in public_calls() if name.partition(".")[2] in WAITING}
    unlimited = {name for name, call in calls.items() if "timeout" not in inspect.signature(call).parameters}
    # It ends by itself, or after replay(stall_timeout) seconds without a record.
    assert unlimited == {"Replay.batches", "Replay.chunks", "Replay.messages"}
    for name in calls.keys() - unlimited:
        timeout = PARAMETERS[f"{name}(timeout)"]
        assert (timeout.annotation, timeout.default) == ("float | None", None), name


def test_offsets_have_one_vocabulary() -> None:
    specs = {
        name
        for name, parameter in PARAMETERS.items()
        if re.search(r"\b(OffsetSpec|ReplayBound)\b", str(parameter.annotation))
    }
    assert specs == TAKES_OFFSETS


def test_every_reader_is_iterable_as_messages_and_as_chunks() -> None:
    for kind in READERS:
        assert hasattr(kind, "__iter__"), kind
        for name, item in (("messages", "Message"), ("chunks", "FetchedDataChunk")):
            assert inspect.signature(getattr(kind, name)).return_annotation.startswith(f"Iterator[{item}"), (
                kind
            )


def test_a_chunk_says_what_it_has() -> None:
    assert public_attributes(FetchedDataChunk) >= {"batch", "topic_partition", "next_offset"}


def test_every_consumer_can_be_closed_and_says_what_it_is() -> None:
    others = [Admin, BatchDelivery, Delivery, EmbeddedBroker, Mirror, OffsetLedger, Producer, Scan]
    for kind in [*CONSUMERS, *others]:
        assert kind.__repr__ is not object.__repr__, kind
        # The connector of a stream is closed; a mirror has nothing open before run and after it.
        if kind not in {BatchDelivery, Delivery, KafkaStream, Mirror, OffsetLedger}:
            assert hasattr(kind, "close"), kind
            assert hasattr(kind, "__exit__"), kind


def test_a_position_can_be_moved_by_count_and_by_time() -> None:
    for kind in POSITIONED:
        assert hasattr(kind, "tail"), kind
        assert hasattr(kind, "seek"), kind
        if kind is not PartitionReader:  # its consumer is asked, for all partitions at once
            assert hasattr(kind, "offsets_for_times"), kind


def test_a_partition_that_is_stopped_is_shown_and_can_be_started_by_every_consumer() -> None:
    for kind in POSITIONED:
        for name in ("stopped", "skip", "retry", "seek"):
            assert hasattr(kind, name), f"{kind}.{name}"


def test_a_method_that_several_consumers_have_takes_the_same_arguments() -> None:
    common: dict[str, list[type]] = {
        "commit": [GroupConsumer, ConsumerConnector],
        "offsets_for_times": [GroupConsumer, ConsumerConnector, PartitionConsumer],
        "seek": [GroupConsumer, ConsumerConnector, PartitionConsumer],
        "skip": [GroupConsumer, ConsumerConnector, PartitionConsumer],
        "retry": [GroupConsumer, ConsumerConnector, PartitionConsumer],
        "tail": POSITIONED,
        "chunks": [kind for kind in READERS if kind is not Replay],
    }
    for name, kinds in common.items():
        signatures = {str(inspect.signature(getattr(kind, name))) for kind in kinds}
        assert len(signatures) == 1, f"{name}: {signatures}"


def test_a_commit_takes_nothing_a_message_a_chunk_or_a_mapping() -> None:
    for name in ("GroupConsumer.commit", "GroupConsumer.commit_async", "ConsumerConnector.commit"):
        offsets = PARAMETERS[f"{name}(offsets)"]
        assert (offsets.annotation, offsets.default) == ("Committable | None", None), name


def test_the_group_is_a_keyword() -> None:
    groups = {name: parameter.kind for name, parameter in PARAMETERS.items() if name.endswith("(group_id)")}
    assert set(groups) == {
        "GroupConsumer(group_id)",
        "OffsetLedger(group_id)",
        "ShareConsumer(group_id)",
    }  # else it is a setting
    assert set(groups.values()) == {inspect.Parameter.KEYWORD_ONLY}


def test_settings_are_a_mapping_or_keywords() -> None:
    keywords = {
        name.partition("(")[0]
        for name, parameter in PARAMETERS.items()
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and parameter.annotation == "object"
    }
    assert keywords == set(MADE_WITH_SETTINGS)
    for name in keywords:
        properties = PARAMETERS[f"{name}(properties)"]
        assert (properties.annotation, properties.default) == ("Mapping[str, object] | None", None), name


@pytest.mark.parametrize("name", MADE_WITH_SETTINGS)
def test_an_unknown_setting_is_an_error_with_the_nearest_name(name: str) -> None:
    make, misspelt, meant = MADE_WITH_SETTINGS[name]
    for settings in ({"properties": {misspelt: "1"}}, {misspelt.replace(".", "_"): 1}):
        with pytest.raises(ConfigError, match=rf"(?s)did you mean .?{re.escape(meant)}"):
            make(**settings)


def test_every_object_that_can_be_closed_warns_if_it_is_forgotten() -> None:
    closable = {name for name in ottla.__all__ if hasattr(getattr(ottla, name), "close")}
    elsewhere = {
        "ConsumerConnector",  # tests/consumer/classic/test_public_face.py
        "EmbeddedBroker",  # tests/broker/test_embedded.py
        "PartitionReader",  # a part of its PartitionConsumer
        "Scan",  # its Replay warns
    }
    assert closable - elsewhere == set(USED)


@pytest.mark.parametrize("name", USED)
def test_a_forgotten_object_warns_and_stops(name: str, broker: EmbeddedBroker) -> None:
    threads = threading.active_count()
    kept = [USED[name](broker)]
    assert repr(kept[0]).startswith(f"<{name}")
    with pytest.warns(ResourceWarning, match=f"{name} .* was not closed"):
        forget(kept)
    wait_for(lambda: threading.active_count() <= threads)


def test_serializers_have_the_same_names_everywhere() -> None:
    by_call: dict[str, set[str]] = {}
    for name in PARAMETERS:
        call, _, parameter = name.rstrip(")").partition("(")
        if re.search("serializer$|decoder|encoder", parameter):
            by_call.setdefault(call, set()).add(parameter)
    assert by_call.pop("Producer") == {"key_serializer", "value_serializer"}
    del by_call["Schema"]  # it is made by its class methods, and is itself given as one of them
    assert set(by_call) == {
        "ConsumerConnector.create_message_streams",
        "ConsumerConnector.create_message_streams_by_filter",
        "GroupConsumer",
        "Mirror",
        "PartitionConsumer",
        "PartitionConsumer.consume_partition",
        "ShareConsumer",
        "replay",
    }
    for call, parameters in by_call.items():
        assert parameters == {"key_deserializer", "value_deserializer"}, call


def test_no_internal_is_public() -> None:
    for kind, names in ATTRIBUTES.items():
        assert public_attributes(kind) == set(names.split()), kind


@pytest.mark.parametrize("name", aio.__all__)
def test_an_asyncio_client_has_the_names_and_arguments_of_the_blocking_one(name: str) -> None:
    kind, blocking = getattr(aio, name), getattr(ottla, name)
    assert public_attributes(kind) == public_attributes(blocking)
    assert (kind.__repr__ is object.__repr__) == (blocking.__repr__ is object.__repr__)
    assert hasattr(kind, "__aiter__") == hasattr(blocking, "__iter__")
    assert hasattr(kind, "__aexit__") == hasattr(blocking, "__exit__")
    calls, same = dict(public_methods(kind)), dict(public_methods(blocking))
    if name in {"BatchDelivery", "Delivery", "PartitionReader"}:  # made by a client
        calls.pop(name, None)
    for call, function in calls.items():
        assert parameters(function) == parameters(same[call]), call


def parameters(function: Callable[..., Any]) -> list[str]:
    return [str(parameter) for parameter in inspect.signature(function).parameters.values()]


def public_attributes(kind: type) -> set[str]:
    """Of the class and of its objects."""
    names = set(dir(kind))
    for base in kind.__mro__:
        if base.__module__.startswith("ottla."):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
            names |= {attribute.attr for attribute in attributes if is_set_on_self(attribute)}
    return {name for name in names if not name.startswith("_")}


def is_set_on_self(attribute: ast.Attribute) -> bool:
    owner = attribute.value
    return isinstance(attribute.ctx, ast.Store) and isinstance(owner, ast.Name) and owner.id == "self"
