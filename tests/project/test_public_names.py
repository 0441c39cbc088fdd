"""What `import ottla` gives: every public name and every error, and nothing heavy before it is used."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

import ottla
from ottla import Admin, EmbeddedBroker, OttlaError, Producer, TopicAndPartition
from ottla.model import errors
from tools.api_reference import MODULES

ROOT = Path(__file__).parents[2]

INTERNAL = {
    "ottla.aio.sending.NoRoom": "makes send() of an asyncio producer wait for memory",
    "ottla.broker.groups.coordinator.consumer_groups.rules.RequestRefused": "becomes an answer to a client",
    "ottla.broker.groups.coordinator.consumer_groups.topics.RegexError": "becomes an answer to a client",
    "ottla.broker.registration.broker_nodes.Conflict": "ends in the broker's log",
    "ottla.broker.security.mechanisms.LoginRefused": "becomes an answer to a client",
    "ottla.security.json_web_token.TokenRefused": "becomes an answer to a client",
    "ottla.broker.serving.handler.DropConnection": "closes a client's connection",
    "ottla.broker.settings.topic_settings.ConfigRefused": "becomes an answer to a client",
    "ottla.broker.storage.open_transactions.NotAdmitted": "sends a first batch to the coordinator first",
    "ottla.console.security.PageRefused": "becomes an answer to a browser",
    "ottla.consumer.classic.assignors.AssignmentRefused": "fails an attempt to rebalance",
    "ottla.consumer.classic.group_view.NotRegistered": "fails an attempt to rebalance",
    "ottla.consumer.classic.ownership.ClaimsRefused": "fails an attempt to rebalance",
    "ottla.log.record_checks.LongCheck": "sends the check of a record set to a thread",
    "ottla.kernels.numpy_columns.BadRecord": "becomes a number that the kernel returns",
    "ottla.kernels.numpy_columns.Damaged": "becomes a number that the kernel returns",
    "ottla.wire.primitives.LongRequest": "sends the decoding of a request to a thread",
    "ottla.records.compression.OverLimit": "becomes a CorruptRecord with its offset",
}
"""Exceptions that no public call raises."""


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    for name in ottla.__all__:
        assert getattr(ottla, name) is not None, name
    assert set(ottla.__all__) <= set(dir(ottla))
    assert len(set(ottla.__all__)) == len(ottla.__all__)
    assert set(ottla._LOADED_AT_FIRST_USE) <= set(ottla.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'ottla' has no attribute 'Consumr'"):
        _ = ottla.Consumr


def test_every_public_exception_can_be_imported_from_ottla() -> None:
    missing = [name for name in exceptions() if name.rpartition(".")[2] not in ottla.__all__]
    assert sorted(name for name in missing if name not in INTERNAL) == []


def test_the_errors_are_one_tree() -> None:
    for name in ottla.__all__:
        value = getattr(ottla, name)
        if isinstance(value, type) and issubclass(value, BaseException):
            assert issubclass(value, OttlaError), name


def test_the_tree_that_is_drawn_is_the_one_that_there_is() -> None:
    drawn = errors.__doc__ or ""
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, OttlaError):
            assert f" {name} " in drawn or f"\n{name}\n" in drawn, name


def test_importing_ottla_loads_nothing_heavy() -> None:
    """Command lines and test plugins import it."""
    heavy = {"numpy", "pyarrow", "numba", "kazoo", "asyncio", "ottla.broker"}
    code = f"import sys, ottla; print(*({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], timeout=60).strip() == b""


def test_the_documents_name_no_error_that_is_not_there() -> None:
    said = re.compile(r"\b(?:except|[Rr]aises?|gets) `?\(?([A-Z][a-z]\w+)")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for name in said.findall(path.read_text(encoding="utf-8")):
            assert name in ottla.__all__ or hasattr(builtins, name), f"{path.name}: {name}"


def classes_with_examples() -> list[type]:
    """Every public class, with these exceptions.

    Errors are met in the help of what raises them. Enums may have an example; most say everything by their
    members. ConsumerIdString is `str`.
    """
    public = (getattr(module, name) for module in map(import_module, MODULES) for name in module.__all__)
    classes = dict.fromkeys(value for value in public if isinstance(value, type) and value is not str)
    return [
        each
        for each in classes
        if not issubclass(each, BaseException | Enum)
        or (issubclass(each, Enum) and ">>>" in str(each.__doc__))
    ]


@pytest.mark.parametrize("public_class", classes_with_examples(), ids=lambda each: each.__name__)
def test_the_help_of_a_class_has_an_example_that_runs(
    public_class: type, request: pytest.FixtureRequest
) -> None:
    text = inspect.cleandoc(public_class.__doc__ or "")
    with servers(set(PORT.findall(text)), request) as ports:
        text = PORT.sub(lambda port: ports[port[0]], text)
        example = doctest.DocTestParser().get_doctest(text, {}, public_class.__name__, None, None)
        assert example.examples, f"help({public_class.__name__}) shows no example"
        report = io.StringIO()
        assert doctest.DocTestRunner().run(example, out=report.write).failed == 0, report.getvalue()


PORT = re.compile(r"\b(?:2181|9092|9093)\b")
"""Where the examples expect ZooKeeper, the broker, and the broker that a mirror copies to."""


@contextmanager
def servers(wanted: set[str], request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Run the servers of these ports, and say on which ports they really are.

    The topic `orders` of the broker has three records; the group `billing` has read the first.
    """
    ports = {}
    properties = {}
    with ExitStack() as running:
        if "2181" in wanted:
            connect = f"{request.getfixturevalue('zookeeper_server').connect}/{request.node.name}"
            properties["zookeeper.connect"] = connect
            ports["2181"] = connect.rpartition(":")[2]
        if "2181" in wanted or "9092" in wanted:
            broker = running.enter_context(EmbeddedBroker(properties=properties))
            ports["9092"] = str(broker.port)
            with Producer(bootstrap_servers=broker.bootstrap) as producer:
                producer.send_batch("orders", pa.table({"value": ["tea", "coffee", "cake"]}))
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                admin.alter_group_offsets("billing", {TopicAndPartition("orders", 0): 1})
        if "9093" in wanted:
            ports["9093"] = str(running.enter_context(EmbeddedBroker()).port)
        yield ports


def exceptions() -> Iterator[str]:
    """Full names of the exception classes in src that are not underscored, without those of the commands."""
    classes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src/ottla").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                classes[f"{module}.{node.name}"] = [ast.unparse(base) for base in node.bases]
    raised = {"Exception", "ValueError"}
    while added := {
        name
        for name, bases in classes.items()
        if raised & set(bases) and name.rpartition(".")[2] not in raised
    }:
        raised |= {name.rpartition(".")[2] for name in added}
    for name, bases in classes.items():
        is_public = not name.rpartition(".")[2].startswith("_") and not name.startswith("ottla.cli.")
        if raised & set(bases) and is_public:
            yield name
