"""The new offsets of --reset-offsets: eight scenarios, each limited to the offsets that the logs have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.admin import Admin, TopicAndPartition
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.java_order import java_partition_order
from ottla.cli.kafka.tool import show
from ottla.model.errors import OttlaError
from ottla.model.offset_spec import OffsetSpec

SCENARIOS = (
    *("by-duration", "to-datetime", "from-file", "shift-by"),
    *("to-offset", "to-earliest", "to-current", "to-latest"),
)
_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(?:T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
Plan = dict[TopicAndPartition, int]


def partitions_of(admin: Admin, texts: Iterable[str]) -> list[TopicAndPartition]:
    """Parse `topic` and `topic:0,1,2`. Raises OttlaError for partitions that do not exist."""
    partitions: list[TopicAndPartition] = []
    for text in texts:
        topic, separator, numbers = text.partition(":")
        present = {partition.partition for partition in admin.describe_topics(topic).partitions}
        try:
            wanted = [int(part) for part in numbers.split(",")] if separator else sorted(present)
        except ValueError:
            raise WrongFlags(f"Cannot parse argument '{text}' of option topic") from None
        missing = [f"{topic}-{number}" for number in wanted if number not in present]
        if missing:
            raise OttlaError(f'The partitions "{",".join(missing)}" do not exist')
        partitions += [TopicAndPartition(topic, number) for number in wanted]
    return partitions


def plan_from_file(path: str, groups: list[str]) -> dict[str, Plan]:
    """Parse lines `topic,partition,offset`, or `group,topic,partition,offset` for several groups."""
    plans: dict[str, Plan] = {}
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise OttlaError(f"{path} cannot be read: {error.strerror or error}") from error
    for line in lines:
        if not line.strip():
            continue
        *group, topic, partition, offset = (cell.strip().strip('"') for cell in line.split(","))
        plan = plans.setdefault(group[0] if group else groups[0], {})
        plan[TopicAndPartition(topic, int(partition))] = int(offset)
    return plans


class Resets:
    """Plans the reset of one command, group by group. `scenarios`: those that the tool has flags for."""

    def __init__(self, admin: Admin, options: Options, scenarios: Iterable[str] = SCENARIOS) -> None:
        self._admin = admin
        self._options = options
        self._scenarios = scenarios

    def plan(self, group: str, partitions: list[TopicAndPartition]) -> Plan:
        """Return the new offsets of the partitions in the given scenario."""
        options = self._options
        (scenario,) = options.any_of(*self._scenarios) or ("",)
        if scenario == "to-offset":
            return self._within(dict.fromkeys(partitions, options.whole("to-offset")))
        if scenario in ("to-earliest", "to-latest"):
            return self._at(partitions, "earliest" if scenario == "to-earliest" else "latest")
        if scenario == "shift-by":
            return self._shifted(group, partitions, options.whole("shift-by"))
        if scenario == "to-current":
            return self._current(group, partitions)
        if scenario == "to-datetime":
            return self._timed(partitions, parse_datetime(options.text("to-datetime")))
        return self._timed(partitions, datetime.now(UTC) - parse_duration(options.text("by-duration")))

    def from_file(self, plan: Mapping[TopicAndPartition, int]) -> Plan:
        """The offsets of the file, limited to the logs."""
        return self._within(plan)

    def _at(self, partitions: Iterable[TopicAndPartition], moment: OffsetSpec) -> Plan:
        offsets = self._admin.list_offsets(list(partitions), moment)
        return {
            topic_partition: log_offset.offset or 0 for topic_partition, log_offset in sorted(offsets.items())
        }

    def _within(self, wanted: Mapping[TopicAndPartition, int]) -> Plan:
        first, end = self._at(wanted, "earliest"), self._at(wanted, "latest")
        return {
            topic_partition: min(max(wanted[topic_partition], first[topic_partition]), end[topic_partition])
            for topic_partition in sorted(wanted)
        }

    def _committed(self, group: str) -> dict[TopicAndPartition, int]:
        return {
            topic_partition: group_offset.offset
            for topic_partition, group_offset in self._admin.group_offsets(group).items()
        }

    def _shifted(self, group: str, partitions: list[TopicAndPartition], by: int) -> Plan:
        present = self._committed(group)
        for topic_partition in partitions:
            if topic_partition not in present:
                raise WrongFlags(
                    f"Cannot shift offset for partition {topic_partition} since there is no current "
                    "committed offset"
                )
        return self._within(
            {topic_partition: present[topic_partition] + by for topic_partition in partitions}
        )

    def _current(self, group: str, partitions: list[TopicAndPartition]) -> Plan:
        present = self._committed(group)
        ends = self._at(
            [topic_partition for topic_partition in partitions if topic_partition not in present], "latest"
        )
        return {
            topic_partition: present.get(topic_partition, ends.get(topic_partition, 0))
            for topic_partition in sorted(partitions)
        }

    def _timed(self, partitions: list[TopicAndPartition], moment: datetime) -> Plan:
        offsets = self._admin.list_offsets(partitions, moment)
        ends = self._at(
            [topic_partition for topic_partition in partitions if offsets[topic_partition].offset is None],
            "latest",
        )
        for topic_partition in java_partition_order(ends):
            show(
                f"\nWarn: Partition {topic_partition.partition} from topic {topic_partition.topic} is empty. "
                "Falling back to latest known offset."
            )
        return {
            topic_partition: ends.get(topic_partition, offsets[topic_partition].offset or 0)
            for topic_partition in sorted(partitions)
        }


def parse_datetime(text: str) -> datetime:
    """Parse 2020-01-01T00:00:00.000; it is in UTC unless it ends with a zone."""
    if "T" not in text:
        raise OttlaError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to "
            "ISO8601 format"
        )
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OttlaError(f'java.text.ParseException: Unparseable date: "{text}"') from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """Parse PnDTnHnMnS as java.time.Duration does."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise OttlaError("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds = match.groups()
    length = timedelta(
        days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0)
    )
    return -length if sign == "-" else length
