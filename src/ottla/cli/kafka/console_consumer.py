"""kafka-console-consumer: prints the records of a topic, one per line."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import islice

from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.message_formatters import Formatter, Record, formatter
from ottla.cli.kafka.record_sources import Wish, records
from ottla.cli.kafka.settings import check_addresses, file_properties, pairs, profile_properties
from ottla.cli.kafka.tool import ToolRefused, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.console_consumer import USAGE
from ottla.model.errors import OttlaError

_RENAMED = {
    "consumer-property": "command-property",
    "consumer.config": "command-config",
    "property": "formatter-property",
}
_BAD_OFFSET = (
    "The provided offset value '{}' is incorrect. Valid values are 'earliest', 'latest', or a "
    "non-negative long."
)


def run(arguments: Sequence[str]) -> int:
    """Print records until a limit is reached or it is interrupted."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    wish = _wish(options)
    write = _formatter(options)
    if not options.has("zookeeper"):
        for name in options.any_of(*_RENAMED):
            show(
                f"Option --{name} is deprecated and will be removed in a future version. "
                f"Use --{_RENAMED[name]} instead."
            )
    most = options.whole("max-messages")
    count = 0
    with records(wish) as source:
        try:
            sys.stdout.flush()
            for record in islice(source, most if most >= 0 else None):
                count += 1
                _write(write, record, skips=options.has("skip-message-on-error"))
        finally:
            show(f"Processed a total of {count} messages", is_error=True)
    if options.has("enable-systest-events"):
        show("shutdown_complete")
    return 0


def _write(write: Formatter, record: Record, *, skips: bool) -> None:
    try:
        text = write(record)
    except ToolRefused as error:
        if not skips:
            raise
        show(f"Error processing message, skipping this message: {error}", is_error=True)
        return
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


# --- what is asked for


def _wish(options: Options) -> Wish:
    is_old = options.has("zookeeper")
    _check(options, is_old=is_old)
    given = {
        **file_properties(options.value("consumer.config")),
        **file_properties(options.value("command-config")),
    }
    more = pairs([*options.values("consumer-property"), *options.values("command-property")])
    groups = [
        group for group in (options.value("group"), given.get("group.id"), more.get("group.id")) if group
    ]
    if len(set(groups)) > 1:
        raise WrongFlags(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. "
            f"Detected group ids: {', '.join(repr(group) for group in dict.fromkeys(groups))}"
        )
    if groups and options.has("partition"):
        raise WrongFlags("Options group and partition cannot be specified together.")
    properties: dict[str, object] = {"client.id": "console-consumer", **profile_properties(), **given, **more}
    properties.pop("group.id", None)
    if options.has("isolation-level"):
        properties["isolation.level"] = options.text("isolation-level")
    if options.has("bootstrap-server"):
        properties["bootstrap.servers"] = check_addresses(options.text("bootstrap-server"))
    if is_old:
        properties["zookeeper.connect"] = options.text("zookeeper")
    properties["include.headers"] = True
    return Wish(
        properties=properties,
        topic=options.value("topic"),
        pattern=options.value("include") or options.value("whitelist"),
        excluded=options.value("blacklist"),
        group=groups[0] if groups else f"console-consumer-{random.randrange(100_000)}",
        is_group_made_up=not groups,
        partition=options.whole("partition") if options.has("partition") else None,
        start=_start(options, properties),
        timeout_ms=options.whole("timeout-ms"),
        deletes_group=options.has("delete-consumer-offsets"),
    )


def _check(options: Options, *, is_old: bool) -> None:
    if is_old:
        if len(options.any_of("topic", "whitelist", "blacklist")) != 1:
            raise WrongFlags("Exactly one of whitelist/blacklist/topic is required.")
        return
    if len(options.any_of("topic", "include", "whitelist")) != 1:
        raise WrongFlags("Exactly one of the following arguments is required: [topic], [include]")
    require(options, "bootstrap-server")
    if options.has("partition"):
        if not options.has("topic"):
            raise WrongFlags("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise WrongFlags("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise WrongFlags("The partition is required when offset is specified.")


def _start(options: Options, properties: dict[str, object]) -> int | str:
    """Where to begin: an offset, "earliest" or "latest"."""
    reset = properties.pop("auto.offset.reset", None)
    if options.has("from-beginning") and reset not in (None, "earliest"):
        raise ToolRefused(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    if options.has("offset"):
        text = options.text("offset")
        if text.lower() in ("earliest", "latest"):
            return text.lower()
        if not text.isascii() or not text.isdigit():
            raise WrongFlags(_BAD_OFFSET.format(text))
        return int(text)
    return "earliest" if options.has("from-beginning") else str(reset or "latest")


def _formatter(options: Options) -> Formatter:
    properties = file_properties(options.value("formatter-config"))
    for side in ("key", "value"):
        if options.value(f"{side}-deserializer"):
            properties[f"{side}.deserializer"] = options.text(f"{side}-deserializer")
    properties |= pairs([*options.values("property"), *options.values("formatter-property")])
    try:
        return formatter(options.text("formatter", "DefaultMessageFormatter"), properties)
    except OttlaError as error:
        raise WrongFlags(str(error)) from error


TOOL = tool_of(USAGE, _act)
