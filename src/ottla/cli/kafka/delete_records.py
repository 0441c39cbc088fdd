"""kafka-delete-records: deletes records before the offsets that a JSON file lists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ottla.admin import Admin, TopicAndPartition
from ottla.cli.kafka.answers import java_error
from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import ToolRefused, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.delete_records import USAGE
from ottla.model.errors import AdminErrors, OttlaError

VERSION = 1
END_OF_LOG = -1


def run(arguments: Sequence[str]) -> int:
    """Delete the records."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server", "offset-json-file")
    wanted = parse_offsets(_text(options.text("offset-json-file")))
    twice = [
        str(key)
        for key, count in Counter(topic_partition for topic_partition, _ in wanted).items()
        if count > 1
    ]
    if twice:
        raise ToolRefused(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    with Admin(admin_properties(options)) as admin:
        show("Executing records delete operation")
        failed: dict[TopicAndPartition, OttlaError] = {}
        try:
            low_watermarks = admin.delete_records(
                {
                    topic_partition: "latest" if offset == END_OF_LOG else offset
                    for topic_partition, offset in wanted
                }
            )
        except AdminErrors as error:
            low_watermarks, failed = dict(error.results), dict(error.errors)
    show("Records delete operation completed:")
    for topic_partition, _ in wanted:
        if topic_partition in failed:
            show(f"partition: {topic_partition}\terror: {java_error(failed[topic_partition])}")
        else:
            show(f"partition: {topic_partition}\tlow_watermark: {low_watermarks[topic_partition]}")
    return 0


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ToolRefused(f"{path} cannot be read: {error.strerror or error}") from error


def parse_offsets(text: str) -> list[tuple[TopicAndPartition, int]]:
    """Parse the file; the order is kept."""
    try:
        read = json.loads(text)
    except ValueError:
        raise ToolRefused("The input string is not a valid JSON") from None
    version = read.get("version", VERSION) if isinstance(read, dict) else None
    if version != VERSION:
        raise ToolRefused(f"Not supported version field value {version}")
    if "partitions" not in read:
        raise ToolRefused("Missing partitions field")
    return [
        (TopicAndPartition(entry["topic"], int(entry["partition"])), int(entry["offset"]))
        for entry in read["partitions"]
    ]


TOOL = tool_of(USAGE, _act)
