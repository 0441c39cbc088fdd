"""kafka-delete-records: what lies before an offset goes, by a JSON file of partitions and offsets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ottla.admin import Admin, AdminErrors, TopicAndPartition
from ottla.cli.kafka.answers import java_error
from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import Refused, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.delete_records import USAGE
from ottla.model.errors import OttlaError

VERSION = 1


def run(arguments: Sequence[str]) -> int:
    """Delete them."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server", "offset-json-file")
    wanted = parse_offsets(_text(options.text("offset-json-file")))
    twice = [str(place) for place, count in Counter(place for place, _ in wanted).items() if count > 1]
    if twice:
        raise Refused(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    with Admin(admin_properties(options)) as admin:
        show("Executing records delete operation")
        failed: dict[TopicAndPartition, OttlaError] = {}
        try:
            found = admin.delete_records(dict(wanted))
        except AdminErrors as error:
            found, failed = dict(error.results), dict(error.errors)
    show("Records delete operation completed:")
    for place, _ in wanted:
        if place in failed:
            show(f"partition: {place}\terror: {java_error(failed[place])}")
        else:
            show(f"partition: {place}\tlow_watermark: {found[place]}")
    return 0


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from error


def parse_offsets(text: str) -> list[tuple[TopicAndPartition, int]]:
    """Of the file, in its order."""
    try:
        read = json.loads(text)
    except ValueError:
        raise Refused("The input string is not a valid JSON") from None
    version = read.get("version", VERSION) if isinstance(read, dict) else None
    if version != VERSION:
        raise Refused(f"Not supported version field value {version}")
    if "partitions" not in read:
        raise Refused("Missing partitions field")
    return [
        (TopicAndPartition(one["topic"], int(one["partition"])), int(one["offset"]))
        for one in read["partitions"]
    ]


TOOL = tool_of(USAGE, _act)
