"""What survives a restart: Spark's checkpoint, read as files; beside it an inferred schema and progress.

    CHECKPOINT/metadata                 Spark's: the query's id
    CHECKPOINT/offsets/17               Spark's: where batch 17 ends; written before it runs
    CHECKPOINT/commits/17               Spark's: batch 17 is done
    CHECKPOINT/ottla/start.json         where the stream began
    CHECKPOINT/ottla/schema             of JSON values, if it was inferred; of several sources: schema-NAME
    CHECKPOINT/ottla/progress.json      the last batches
    CHECKPOINT/refused                  a checkpoint of its own: dead letters beside windows

It can be read while the pipeline runs in another process.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from ottla.model.errors import ConfigError
from ottla.spark.locations import location
from ottla.spark.offset_json import START, Offsets, from_spark, start_in, to_spark
from ottla.spark.pipeline.source_form import VIEW
from ottla.spark.pipeline.spans import Spans, spans_between

KEPT_BATCHES = 100
_OWN, _PROGRESS = "ottla", "progress.json"
NO_OFFSET = "-"  # Spark writes this for a source that has no offsets yet


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch as its query reported it.

    Times are ISO 8601; `latest` are the ends of the logs at that time.
    """

    batch: int
    at: str
    records: int
    seconds: float
    latest: dict[str, Any]

    @property
    def rate(self) -> float:
        """Records a second; 0.0 if the time is not known."""
        return self.records / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Committed:
    """The last completed batch of a query, and its end."""

    batch: int
    offsets: Offsets


class PipelineState:
    """The state in one checkpoint. Keeps no file open."""

    def __init__(self, checkpoint: str | Path) -> None:
        self._where = location(checkpoint)
        self.url = self._where.url

    def __reduce__(self) -> tuple[type[PipelineState], tuple[str]]:
        """Pickle the location only: Spark Connect pickles what batches need."""
        return PipelineState, (self.url,)

    # --- Spark's files

    def query_id(self) -> str:
        """The query's id, the same after every restart. Raises ConfigError if there was no query yet."""
        try:
            return str(json.loads(self._text("metadata") or "{}")["id"])
        except (ValueError, KeyError):
            raise ConfigError(f"{self.url} is no checkpoint of a pipeline: it has no file metadata") from None

    def committed(self) -> Committed | None:
        """The last completed batch; None before the first."""
        names = (entry.path.rpartition("/")[2] for entry in self._where.list("commits"))
        last = max((int(name) for name in names if name.isdecimal()), default=None)
        return None if last is None else Committed(last, from_spark(self._end_of(last)))

    def spans(self, batch: int) -> Spans:
        """The records of a batch, which may still be running."""
        end = self._end_of(batch)
        begin = start_in(end)
        if begin is None:
            begin = from_spark(self._end_of(batch - 1)) if batch else self.start()
        return spans_between(begin, from_spark(end))

    def _end_of(self, batch: int) -> dict[str, Any]:
        path = f"offsets/{batch}"
        try:
            # A version, Spark's own settings, and a line for each source; no two have a topic in common.
            text = self._text(path)
            of_sources = (text or "").splitlines()[2:]
            if not of_sources:
                raise ValueError("there is no such file" if text is None else "it has no offsets")
            return merged(json.loads(line) for line in of_sources if line != NO_OFFSET)
        except ValueError as error:
            raise ConfigError(
                f"{self.url}/{path} cannot be read: {error}; Spark keeps a query's offsets there"
            ) from None

    # --- ours

    def schema(self, source: str = VIEW) -> str | None:
        """The stored schema of a source's values."""
        return self._stored(_schema_file(source))

    def pin_schema(self, schema: str, source: str = VIEW) -> str:
        """Store a schema, unless there is one. Returns the stored schema."""
        return self._pinned(_schema_file(source), schema)

    def start(self) -> Offsets:
        """Where the stream began; empty if that is not stored."""
        return from_spark(json.loads(self._stored("start.json") or "{}"))

    def pin_start(self, begin: Offsets) -> Offsets:
        """Store where the stream begins, unless that is stored. Returns what is stored."""
        return from_spark(json.loads(self._pinned("start.json", shown_offsets(begin))))

    def _text(self, path: str) -> str | None:
        stored = self._where.read(path)
        return None if stored is None else stored.content.decode()

    def _stored(self, name: str) -> str | None:
        text = self._text(f"{_OWN}/{name}")
        return None if text is None else text.strip()

    def _pinned(self, name: str, text: str) -> str:
        if self._where.create(f"{_OWN}/{name}", f"{text}\n".encode()):
            return text
        return self._stored(name) or text

    def batches(self) -> list[BatchDone]:
        """The last batches, oldest first."""
        try:
            saved = json.loads(self._stored(_PROGRESS) or "[]")
        except ValueError:
            return []
        names = [field.name for field in fields(BatchDone)]
        return [BatchDone(**{name: row[name] for name in names}) for row in saved]

    def keep(self, done: BatchDone) -> None:
        """Add a batch; a repeated batch is stored once."""
        kept = deque((batch for batch in self.batches() if batch.batch < done.batch), KEPT_BATCHES - 1)
        text = json.dumps([asdict(progress) for progress in (*kept, done)])
        self._where.put(f"{_OWN}/{_PROGRESS}", text.encode())


def _schema_file(source: str) -> str:
    return "schema" if source == VIEW else f"schema-{source}"


def merged(offsets: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The offsets of several sources as one. Raises ConfigError if two of them read the same topic."""
    made: dict[str, Any] = {}
    for source_offsets in offsets:
        if double := made.keys() & source_offsets.keys() - {START}:
            raise ConfigError(
                f"[[source]]: two sources read topic {sorted(double)[0]!r}; records are known by topic,"
                " partition and offset, so a topic belongs to one source: SQL may read it twice"
            )
        made |= source_offsets
    return made


def records_between(begin: Mapping[str, Any], end: Mapping[str, Any]) -> int:
    """The number of offsets between two of Spark's offsets."""
    return sum(
        last - first
        for spans in spans_between(from_spark(begin), from_spark(end)).values()
        for first, last in spans
    )


def seconds_behind(batches: Sequence[BatchDone], position: Offsets, now: datetime) -> float | None:
    """Return how long ago the first record after `position` arrived at most, judged by the log ends that
    batches saw.

    0.0 if nothing is left; None if no batch saw the record yet.
    """
    latest = from_spark(batches[-1].latest) if batches else {}
    if not any(offset > position.get(topic_partition, 0) for topic_partition, offset in latest.items()):
        return 0.0 if batches else None
    for done in batches:
        if any(
            offset > position.get(topic_partition, 0)
            for topic_partition, offset in from_spark(done.latest).items()
        ):
            return max(0.0, (now - datetime.fromisoformat(done.at)).total_seconds())
    return None


def shown_offsets(offsets: Offsets) -> str:
    """Offsets as JSON, as an option takes them."""
    return json.dumps(to_spark(offsets))
