"""The flags of kafka-share-groups."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, Value, number, switch

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("command-config", "A properties file for the client."),
    switch("list", "All share groups."),
    switch("describe", "A group's offsets, members or state."),
    switch("delete", "Delete groups without members."),
    switch("reset-offsets", "Let a group without members begin elsewhere: --dry-run or --execute."),
    switch("delete-offsets", "Let a group without members forget topics."),
    Flag("group", "A share group; may be repeated to describe or delete."),
    switch("all-groups", "All share groups."),
    Flag("topic", "A topic, or for a reset topic:0,1,2; may be repeated."),
    switch("all-topics", "All topics of the group."),
    switch("members", "Describe the members."),
    Flag(
        "state", "Describe the state; with --list, show it, or only groups in one of these.", Value.OPTIONAL
    ),
    switch("offsets", "Describe the offsets (the default)."),
    switch("verbose", "Show more columns."),
    switch("to-earliest", "To the start of the logs."),
    switch("to-latest", "To the end of the logs."),
    Flag("to-datetime", "To the first record from 2020-01-01T00:00:00.000 (UTC, or with a zone) on."),
    switch("dry-run", "Change nothing."),
    switch("execute", "Do it."),
    number("timeout", "How long a call may take, in ms."),
)
USAGE = Usage(
    "kafka-share-groups", "This tool helps to list, describe, reset and delete share groups.", FLAGS
)
