"""The flags of kafka-consumer-groups."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, Value, number, switch

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper: classic groups. The text is Kafka 0.9's."),
    switch("list", "All groups."),
    switch("describe", "A group's offsets, members or state."),
    switch("delete", "Delete groups without members."),
    switch("reset-offsets", "Move groups without members: --dry-run prints the plan, --execute does it."),
    switch("delete-offsets", "Delete offsets of topics that no member of the group reads."),
    Flag("validate-regex", "Check a regular expression."),
    Flag("group", "A group; may be repeated."),
    switch("all-groups", "All groups."),
    Flag("topic", "A topic, or topic:0,1,2; may be repeated."),
    switch("all-topics", "All topics that the group has offsets for."),
    switch("members", "Describe the members."),
    Flag(
        "state", "Describe the state; with --list, show it, or only groups in one of these.", Value.OPTIONAL
    ),
    Flag("type", "With --list, show the type, or only groups of one of these.", Value.OPTIONAL),
    switch("offsets", "Describe the offsets (the default)."),
    switch("verbose", "Show more columns."),
    switch("to-earliest", "To the start of the logs."),
    switch("to-latest", "To the end of the logs."),
    switch("to-current", "To the committed offsets."),
    number("to-offset", "To an offset."),
    Flag("to-datetime", "To the first record from 2020-01-01T00:00:00.000 (UTC, or with a zone) on."),
    Flag("by-duration", "To the first record of the last PnDTnHnMnS."),
    number("shift-by", "Forward by this many offsets, or back if negative."),
    Flag(
        "from-file",
        "To the offsets in a file of topic,partition,offset; with the group first if there are several.",
    ),
    switch("dry-run", "Change nothing."),
    switch("execute", "Do it."),
    switch("export", "Print the new offsets in the form of --from-file."),
    number("timeout", "How long a call may take, in ms."),
    Flag("command-config", "A properties file for the client."),
    switch("new-consumer", "Ignored: --zookeeper or --bootstrap-server decides."),
)
USAGE = Usage(
    "kafka-consumer-groups",
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or "
    "reset consumer group offsets.",
    FLAGS,
)
