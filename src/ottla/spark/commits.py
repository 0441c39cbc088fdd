"""Commits to tables that keep offsets in their own commits (Delta, Iceberg): once, even with
several writers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from ottla.model.errors import ConfigError
from ottla.spark.offset_json import Offsets
from ottla.spark.pipeline.spans import Spans, is_overlap

log = logging.getLogger(__name__)

COMMIT_TRIES = 5
Version = TypeVar("Version")


def commit_once(
    table: str,
    spans: Spans,
    opened: Callable[[], Version],
    there: Callable[[Version], Spans],
    commit: Callable[[Version], None],
    overtaken: type[Exception],
) -> None:
    """Commit records to the version of a table whose offsets were compared.

    `overtaken` is the error for a version that is not the newest any more; then the offsets are compared
    again. Raises ConfigError if the table has some of the records, and `overtaken` after several tries.
    """
    for attempt in range(COMMIT_TRIES):
        version = opened()
        if is_overlap(spans, there(version)):
            raise ConfigError(
                f"{table}: another writer has written some of these records meanwhile; run one writer, or"
                " run again"
            )
        try:
            commit(version)
        except overtaken:
            if attempt + 1 == COMMIT_TRIES:
                raise
            log.info("%s: another writer was faster; trying again", table)
        else:
            return


def known_after(known: Offsets, spans: Spans, *, is_all: bool) -> Offsets:
    """Return up to where a table has all records of each partition, after a range was written in place of its
    rows.
    """
    return {
        topic_partition: max(many[-1][1], known.get(topic_partition, 0))
        for topic_partition, many in spans.items()
        if is_all or many[0][0] <= known.get(topic_partition, 0)
    }
