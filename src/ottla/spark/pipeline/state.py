"""What survives a restart: Spark's checkpoint, read as files; and beside it a pinned schema and progress.

    CHECKPOINT/metadata                 Spark's: the query's id
    CHECKPOINT/offsets/17               Spark's: where batch 17 ends; written before it runs
    CHECKPOINT/commits/17               Spark's: batch 17 is done
    CHECKPOINT/ottla/schema             of JSON values, if it was inferred
    CHECKPOINT/ottla/progress.json      the last batches
    CHECKPOINT/refused                  a checkpoint of its own: dead letters beside windows

It can be read while the pipeline runs in another process.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ottla.model.errors import ConfigError
from ottla.spark.offset_json import Offsets, from_spark, start_in, to_spark
from ottla.spark.pipeline.spans import Spans, spans_between
from ottla.spark.whole_files import write_whole

KEPT_BATCHES = 100


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch, as its query told of it. Times are ISO 8601; `latest` is where logs ended then."""

    batch: int
    at: str
    records: int
    seconds: float
    latest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Committed:
    """How far a query is."""

    batch: int
    offsets: Offsets


class State:
    """Of one checkpoint. Holds nothing open."""

    def __init__(self, checkpoint: str | Path) -> None:
        self.path = Path(str(checkpoint).removeprefix("file:"))
        self._own = self.path / "ottla"

    # --- Spark's files

    def query_id(self) -> str:
        """Of the query, the same after every restart. Raises ConfigError if there was none yet."""
        try:
            return str(json.loads((self.path / "metadata").read_text())["id"])
        except (OSError, ValueError, KeyError):
            raise ConfigError(
                f"{self.path} is no checkpoint of a pipeline: it has no file metadata"
            ) from None

    def committed(self) -> Committed | None:
        """The last batch that is done; None before the first one."""
        last = max(_numbers(self.path / "commits"), default=None)
        return None if last is None else Committed(last, from_spark(self._end_of(last)))

    def spans(self, batch: int) -> Spans:
        """Which records a batch has; it may still run."""
        end = self._end_of(batch)
        begin = start_in(end)
        if begin is None:
            begin = from_spark(self._end_of(batch - 1)) if batch else {}
        return spans_between(begin, from_spark(end))

    def _end_of(self, batch: int) -> dict[str, Any]:
        path = self.path / "offsets" / str(batch)
        try:
            # A version, Spark's own settings, and a line for each source: there is one.
            return dict(json.loads(path.read_text().splitlines()[2]))
        except (OSError, ValueError, IndexError) as error:
            raise ConfigError(
                f"{path} cannot be read: {error}; Spark keeps a query's offsets there"
            ) from None

    # --- ours

    def schema(self) -> str | None:
        """The pinned schema."""
        try:
            return (self._own / "schema").read_text().strip()
        except FileNotFoundError:
            return None

    def pin_schema(self, schema: str) -> str:
        """Keep a schema for good; the one that is kept, if somebody was faster."""
        self._own.mkdir(parents=True, exist_ok=True)
        hidden = self._own / f".schema.{uuid.uuid4().hex}"
        hidden.write_text(f"{schema}\n")
        try:
            os.link(hidden, self._own / "schema")
        except FileExistsError:
            return self.schema() or schema
        finally:
            hidden.unlink()
        return schema

    def batches(self) -> list[BatchDone]:
        """The last batches, oldest first."""
        try:
            told = json.loads((self._own / "progress.json").read_text())
        except (OSError, ValueError):
            return []
        names = [one.name for one in fields(BatchDone)]
        return [BatchDone(**{name: row[name] for name in names}) for row in told]

    def keep(self, done: BatchDone) -> None:
        """Add a batch; a batch that was repeated is there once."""
        kept = deque((one for one in self.batches() if one.batch < done.batch), KEPT_BATCHES - 1)
        write_whole(self._own / "progress.json", json.dumps([asdict(one) for one in (*kept, done)]))


def records_between(begin: Mapping[str, Any], end: Mapping[str, Any]) -> int:
    """How many offsets are between two of Spark's offsets."""
    return sum(
        last - first
        for spans in spans_between(from_spark(begin), from_spark(end)).values()
        for first, last in spans
    )


def shown_offsets(offsets: Offsets) -> str:
    """As JSON, as an option takes it."""
    return json.dumps(to_spark(offsets))


def _numbers(directory: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(directory) if name.isdecimal()]
    except FileNotFoundError:
        return []
