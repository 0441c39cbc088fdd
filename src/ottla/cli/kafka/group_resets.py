"""Where --reset-offsets puts a group: eight ways, each within what the logs have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.admin import Admin, At, TopicAndPartition
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.java_order import java_partition_order
from ottla.cli.kafka.tool import show
from ottla.model.errors import OttlaError

SCENARIOS = (
    *("by-duration", "to-datetime", "from-file", "shift-by"),
    *("to-offset", "to-earliest", "to-current", "to-latest"),
)
_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(?:T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
Plan = dict[TopicAndPartition, int]


def partitions_of(admin: Admin, texts: Iterable[str]) -> list[TopicAndPartition]:
    """Of `topic` and `topic:0,1,2`. Raises OttlaError for those that are not there."""
    found: list[TopicAndPartition] = []
    for text in texts:
        topic, separator, numbers = text.partition(":")
        present = {one.partition for one in admin.describe_topics(topic).partitions}
        try:
            wanted = [int(one) for one in numbers.split(",")] if separator else sorted(present)
        except ValueError:
            raise WrongFlags(f"Cannot parse argument '{text}' of option topic") from None
        missing = [f"{topic}-{one}" for one in wanted if one not in present]
        if missing:
            raise OttlaError(f'The partitions "{",".join(missing)}" do not exist')
        found += [TopicAndPartition(topic, one) for one in wanted]
    return found


def plan_from_file(path: str, groups: list[str]) -> dict[str, Plan]:
    """Of lines `topic,partition,offset`, or with the group before them if there are several groups."""
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
    """The plan of one command, group by group."""

    def __init__(self, admin: Admin, options: Options) -> None:
        self._admin = admin
        self._options = options

    def plan(self, group: str, places: list[TopicAndPartition]) -> Plan:
        """New offsets of the partitions, by the one scenario that was given."""
        options = self._options
        (scenario,) = options.any_of(*SCENARIOS) or ("",)
        if scenario == "to-offset":
            return self._within(dict.fromkeys(places, options.whole("to-offset")))
        if scenario in ("to-earliest", "to-latest"):
            return self._at(places, At.EARLIEST if scenario == "to-earliest" else At.LATEST)
        if scenario == "shift-by":
            return self._shifted(group, places, options.whole("shift-by"))
        if scenario == "to-current":
            return self._current(group, places)
        if scenario == "to-datetime":
            return self._timed(places, parse_datetime(options.text("to-datetime")))
        return self._timed(places, datetime.now(UTC) - parse_duration(options.text("by-duration")))

    def from_file(self, plan: Mapping[TopicAndPartition, int]) -> Plan:
        """What a file says, within the logs."""
        return self._within(plan)

    def _at(self, places: Iterable[TopicAndPartition], moment: At) -> Plan:
        found = self._admin.list_offsets(list(places), moment)
        return {place: one.offset or 0 for place, one in sorted(found.items())}

    def _within(self, wanted: Mapping[TopicAndPartition, int]) -> Plan:
        first, end = self._at(wanted, At.EARLIEST), self._at(wanted, At.LATEST)
        return {place: min(max(wanted[place], first[place]), end[place]) for place in sorted(wanted)}

    def _committed(self, group: str) -> dict[TopicAndPartition, int]:
        return {place: one.offset for place, one in self._admin.group_offsets(group).items()}

    def _shifted(self, group: str, places: list[TopicAndPartition], by: int) -> Plan:
        present = self._committed(group)
        for place in places:
            if place not in present:
                raise WrongFlags(
                    f"Cannot shift offset for partition {place} since there is no current committed offset"
                )
        return self._within({place: present[place] + by for place in places})

    def _current(self, group: str, places: list[TopicAndPartition]) -> Plan:
        present = self._committed(group)
        ends = self._at([place for place in places if place not in present], At.LATEST)
        return {place: present.get(place, ends.get(place, 0)) for place in sorted(places)}

    def _timed(self, places: list[TopicAndPartition], moment: datetime) -> Plan:
        found = self._admin.list_offsets(places, moment)
        ends = self._at([place for place in places if found[place].offset is None], At.LATEST)
        for place in java_partition_order(ends):
            show(
                f"\nWarn: Partition {place.partition} from topic {place.topic} is empty. "
                "Falling back to latest known offset."
            )
        return {place: ends.get(place, found[place].offset or 0) for place in sorted(places)}


def parse_datetime(text: str) -> datetime:
    """2020-01-01T00:00:00.000, in UTC unless it ends with a zone."""
    if "T" not in text:
        raise OttlaError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to "
            "ISO8601 format"
        )
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OttlaError(f'java.text.ParseException: Unparseable date: "{text}"') from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """PnDTnHnMnS, as java.time.Duration reads it."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise OttlaError("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds = found.groups()
    length = timedelta(
        days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0)
    )
    return -length if sign == "-" else length
