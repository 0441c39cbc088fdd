"""What a data directory knows beside its logs: topics, their configs, and the numbers given out.

    DIR/ottla.json     replaced whole with every change, so that a crash leaves the old state or the new one

Partition directories that the file does not name are adopted as topics of their own: they come from Apache
Kafka, or from a directory that somebody put together by hand. That is why a deletion is two changes: the
topic is marked first, and taken out when its directories are gone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ottla.log.file_system import REAL, FileSystem
from ottla.model.errors import StorageError

FILE_NAME = "ottla.json"
FORMAT = 1

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. Of each partition: which brokers may lead it, the preferred one first, and its epoch."""

    name: str
    topic_id: bytes
    replicas: tuple[Replicas, ...]
    leader_epochs: tuple[int, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    is_deleting: bool = False

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""
        return len(self.replicas)


class Catalog:
    """Owned by the broker's loop. Every method that changes something has it on disk when it returns.

    All raise StorageError; what is in memory is then as before.
    """

    def __init__(self, directory: Path, file_system: FileSystem = REAL) -> None:
        self._path = directory / FILE_NAME
        self._file_system = file_system
        self.topics: dict[str, Topic] = {}
        self.broker_overrides: dict[str, Mapping[str, str]] = {}  # by broker id; "" is the default for all
        self._lines: dict[str, tuple[Topic, str]] = {}
        self.producer_ids_end = 0  # below it, every id may have been given out
        self._load()

    def _load(self) -> None:
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{self._path}: cannot read it: {error}") from error
        try:
            content = json.loads(text)
            if content["version"] != FORMAT:
                raise ValueError(f"version {content['version']}, not {FORMAT}")
            self.producer_ids_end = int(content["producer_ids_end"])
            self.broker_overrides = dict(content["broker_overrides"])
            self.topics = {name: _topic(name, fields) for name, fields in content["topics"].items()}
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"{self._path} is no catalog of this version of ottla: {error!r}. Remove it to have topics "
                "made from the partition directories, without their configs"
            ) from error

    def put(self, topics: Iterable[Topic]) -> None:
        """Add topics, or replace them."""
        self._change(topics=self.topics | {topic.name: topic for topic in topics})

    def mark_deleting(self, name: str) -> None:
        """Decide a deletion."""
        self.put([replace(self.topics[name], is_deleting=True)])

    def remove(self, name: str) -> None:
        """Forget a topic whose directories are gone."""
        self._change(topics={key: topic for key, topic in self.topics.items() if key != name})

    def set_broker_overrides(self, broker_id: str, overrides: Mapping[str, str]) -> None:
        """Dynamic configs of a broker, or of all for the empty id."""
        self._change(broker_overrides=self.broker_overrides | {broker_id: dict(overrides)})

    def reserve_producer_ids(self, end: int) -> None:
        """Ids below `end` may be given out from now on."""
        self._change(producer_ids_end=end)

    def _change(self, **changes: Any) -> None:
        state: dict[str, Any] = {
            "producer_ids_end": self.producer_ids_end,
            "broker_overrides": self.broker_overrides,
            "topics": self.topics,
        } | changes
        topics: Mapping[str, Topic] = state.pop("topics")
        head = json.dumps({"version": FORMAT} | state)[:-1]
        body = ",\n".join(self._line(topic) for topic in topics.values())
        try:
            self._file_system.replace_file(self._path, f'{head}, "topics": {{\n{body}\n}}}}\n'.encode())
        except OSError as error:
            raise StorageError(f"{self._path}: cannot write it: {error}") from error
        for name, value in changes.items():
            setattr(self, name, value)
        self._lines = {name: line for name, line in self._lines.items() if name in topics}

    def _line(self, topic: Topic) -> str:
        """A topic's line in the file, kept: a change of one topic writes those of all."""
        known = self._lines.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._lines[topic.name] = topic, f"{json.dumps(topic.name)}: {json.dumps(_fields(topic))}"
        return known[1]


def _fields(topic: Topic) -> dict[str, object]:
    return {
        "topic_id": base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("="),
        "replicas": topic.replicas,
        "leader_epochs": topic.leader_epochs,
        "overrides": dict(topic.overrides),
        "is_deleting": topic.is_deleting,
    }


def _topic(name: str, fields: dict[str, Any]) -> Topic:
    return Topic(
        name,
        base64.urlsafe_b64decode(fields["topic_id"] + "=="),
        tuple(tuple(replicas) for replicas in fields["replicas"]),
        tuple(fields["leader_epochs"]),
        dict(fields["overrides"]),
        bool(fields["is_deleting"]),
    )
