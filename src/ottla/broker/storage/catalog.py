"""The catalog of a data directory: its topics, their settings, and the numbers that were given out.

    DIR/ottla.json      everything as it was at some time; replaced whole, when the journal has grown
    DIR/ottla.journal   every change since, one line each: creating a topic costs the same with ten thousand

Partition directories that the file does not name are adopted as topics: they come from Apache Kafka, or were
put there by hand. That is why a deletion takes two changes: the topic is marked first, and removed when its
directories are gone.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ottla.broker.storage.journal import Change, Journal
from ottla.log.file_system import REAL, FileSystem
from ottla.model.checksums import crc32c
from ottla.model.errors import StorageError

FILE_NAME = "ottla.json"
JOURNAL_NAME = "ottla.journal"
FORMAT = 1
JOURNAL_BYTES_MIN = 64 << 10
"""The journal is as large as the catalog, and at least this large, before both are written anew."""
NO_CHECKSUM = "00000000"
_CHECKSUM = re.compile(rb'(?<="checksum": ")[0-9a-f]{8}')

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `replicas`: the brokers that may lead each partition, the preferred one first."""

    name: str
    topic_id: bytes
    replicas: tuple[Replicas, ...]
    leader_epochs: tuple[int, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    is_deleting: bool = False

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self.replicas)


def folded(name: str) -> str:
    """A topic's name as metrics show it."""
    return name.replace(".", "_")


class Catalog:
    """Owned by the broker's loop. A change is on disk when its method returns.

    Every method that changes something raises StorageError; then nothing has changed.
    """

    def __init__(self, directory: Path, file_system: FileSystem = REAL) -> None:
        self._path = directory / FILE_NAME
        self._journal = Journal(directory / JOURNAL_NAME, file_system)
        self._generation = ""  # of the catalog's file: the journal says which one it continues
        self._bytes = 0
        self._is_new = False  # neither file was there
        self._folded: dict[str, str] = {}
        self.losses: list[str] = []  # changes that the journal had and that are gone
        self.topics: dict[str, Topic] = {}
        self.topics_version = 0  # counts every change of a topic
        self.broker_overrides: dict[str, Mapping[str, str]] = {}  # by broker id; "" is the default for all
        self.entities: dict[str, dict[str, Mapping[str, Any]]] = {}  # settings of groups, quotas: by kind
        self._lines: dict[str, tuple[Topic, str]] = {}
        self.cluster_id = ""  # as in meta.properties, which may be lost; written with the next change
        self.producer_ids_end = 0  # below it, every id may have been given out
        self._load()

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._is_new = not self._journal.path.exists()
            if not self._is_new:
                self.losses.append(f"{self._path} is missing: the configs of topics and brokers are lost")
            return
        except OSError as error:
            raise StorageError(f"{self._path}: cannot read it: {error}") from error
        try:
            content = json.loads(data.decode())
            if content["version"] != FORMAT:
                raise ValueError(f"version {content['version']}, not {FORMAT}")
            if content.get("checksum") not in (None, _checksum(data)):
                raise ValueError("the checksum does not match")
            self.cluster_id = str(content.get("cluster_id", ""))
            self.producer_ids_end = int(content["producer_ids_end"])
            self.broker_overrides = dict(content["broker_overrides"])
            self.entities = {kind: dict(named) for kind, named in content.get("entities", {}).items()}
            self.topics = {name: _topic(name, fields) for name, fields in content["topics"].items()}
            self._generation = str(content.get("generation", ""))
            self._bytes = len(data)
            for change in self._journal.load(self._generation):
                self._replay(change)
            if self._generation and self._journal.loss:
                self.losses.append(self._journal.loss)
            self._folded = {folded(name): name for name in self.topics}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"{self._path} is damaged, or no catalog of this ottla: {error!r}. Restore it, or see:"
                f" ottla log repair {self._path.parent} --dry-run. Without it topics are made from their"
                " directories, without their configs"
            ) from error

    def put(self, topics: Iterable[Topic]) -> None:
        """Add topics, or replace them: all of them with one wait for the disk."""
        topics = list(topics)
        self._change([{"topic": topic.name, "fields": _fields(topic)} for topic in topics])
        self.topics_version += 1
        for topic in topics:
            self.topics[topic.name] = topic
            self._folded[folded(topic.name)] = topic.name

    def mark_deleting(self, names: Iterable[str]) -> None:
        """Mark topics whose deletion has begun."""
        self.put(replace(self.topics[name], is_deleting=True) for name in names)

    def remove(self, names: Sequence[str]) -> None:
        """Forget topics whose directories are gone."""
        self._change([{"topic": name} for name in names])
        self.topics_version += 1
        for name in names:
            del self.topics[name]
            self._folded.pop(folded(name), None)
            self._lines.pop(name, None)

    def set_broker_overrides(self, broker_id: str, overrides: Mapping[str, str]) -> None:
        """Replace what admin clients have set for a broker; the empty id stands for all brokers."""
        self._change([{"broker": broker_id, "overrides": dict(overrides)}])
        self.broker_overrides[broker_id] = dict(overrides)

    def entity(self, kind: str, name: str) -> Mapping[str, Any]:
        """Return the stored values of a named entity, such as the settings of a group."""
        return self.entities.get(kind, {}).get(name, {})

    def set_entities(self, kind: str, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the values of entities of a kind, all at once; empty values delete an entity."""
        stored = [{"kind": kind, "name": name, "known": dict(known)} for name, known in changes.items()]
        self._change(stored)
        for change in stored:
            self._replay(change)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Note the cluster that the directory has joined."""
        self._change([{"cluster_id": cluster_id}])
        self.cluster_id = cluster_id

    def reserve_producer_ids(self, end: int) -> None:
        """Reserve producer ids: those below `end` may be given out from now on."""
        self._change([{"producer_ids_end": end}])
        self.producer_ids_end = end

    def collision(self, name: str) -> str | None:
        """Return the topic whose name differs from `name` only by '.' and '_', or None."""
        return self._folded.get(folded(name))

    # --- the two files

    def _change(self, changes: list[Change]) -> None:
        """Store changes before they are made in memory. If most lines are dead, first write all anew."""
        if not changes:
            return
        with self._as_storage_error():
            if self._is_new:
                self._store_first(changes)
            else:
                if not self._journal.size or self._journal.size > max(self._bytes, JOURNAL_BYTES_MIN):
                    self._store_all()
                self._journal.append(changes)

    def renew(self) -> None:
        """Write both files again, without the traces of lost changes: the next opening does not
        report them.
        """
        with self._as_storage_error():
            self._store_all()

    @contextmanager
    def _as_storage_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self._path}: cannot write it: {error}") from error

    def _store_first(self, changes: list[Change]) -> None:
        """Write both files for the first time, with changes in the journal. Raises OSError."""
        self._is_new = False
        generation = os.urandom(8).hex()
        data = self._snapshot(generation)
        self._journal.begin_with(generation, self._path, data, changes)
        self._generation, self._bytes = generation, len(data)

    def _store_all(self) -> None:
        """Write the catalog anew, with an empty journal after it. Raises OSError.

        A crash between the two leaves a journal of the generation before, whose changes are in the catalog.
        """
        generation = os.urandom(8).hex()
        data = self._snapshot(generation)
        self._journal.file_system.replace_file(self._path, data)
        self._generation = generation
        self._bytes = len(data)
        self._journal.begin(self._generation)

    def _snapshot(self, generation: str) -> bytes:
        """What the catalog's file says of everything as it is now."""
        state = {
            "version": FORMAT,
            "checksum": NO_CHECKSUM,
            "generation": generation,
            "cluster_id": self.cluster_id,
            "producer_ids_end": self.producer_ids_end,
            "broker_overrides": self.broker_overrides,
            "entities": self.entities,
        }
        head = json.dumps(state)[:-1]
        body = ",\n".join(self._line(topic) for topic in self.topics.values())
        data = f'{head}, "topics": {{\n{body}\n}}}}\n'.encode()
        return data.replace(NO_CHECKSUM.encode(), _checksum(data).encode(), 1)

    def _replay(self, change: Change) -> None:
        """Apply a change that was stored."""
        if "producer_ids_end" in change:
            self.producer_ids_end = int(change["producer_ids_end"])
        elif "cluster_id" in change:
            self.cluster_id = str(change["cluster_id"])
        elif "broker" in change:
            self.broker_overrides[change["broker"]] = dict(change["overrides"])
        elif "kind" in change:
            named = self.entities.setdefault(change["kind"], {})
            if change["known"]:
                named[change["name"]] = change["known"]
            else:
                named.pop(change["name"], None)
        elif "fields" in change:
            self.topics[change["topic"]] = _topic(change["topic"], change["fields"])
        else:
            self.topics.pop(change["topic"], None)

    def _line(self, topic: Topic) -> str:
        """Return a topic's line in the file. Lines are cached: most stay the same."""
        cached = self._lines.get(topic.name)
        if cached is None or cached[0] is not topic:
            cached = self._lines[topic.name] = (
                topic,
                f"{json.dumps(topic.name)}: {json.dumps(_fields(topic))}",
            )
        return cached[1]


def _checksum(data: bytes) -> str:
    """The checksum of a catalog: of all of it, with zeros in the place of the checksum."""
    return f"{crc32c(_CHECKSUM.sub(NO_CHECKSUM.encode(), data, count=1)):08x}"


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
