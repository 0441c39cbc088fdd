"""The flags of kafka-consumer-groups."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, Value, number, switch

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper: classic groups. The text is Kafka 0.9's."),
    switch("list", "All groups."),
    switch("describe", "A group's offsets, members or state."),
    switch("delete", "Delete groups without members."),
    switch(
        "reset-offsets", "Move groups without members: with --dry-run what would be, with --execute for good."
    ),
    switch("delete-offsets", "Forget offsets of topics that no member of the group reads."),
    Flag("validate-regex", "Say whether a regular expression is one."),
    Flag("group", "A group; may come more than once."),
    switch("all-groups", "All groups."),
    Flag("topic", "A topic, or topic:0,1,2; may come more than once."),
    switch("all-topics", "All topics that the group has offsets of."),
    switch("members", "Describe the members."),
    Flag(
        "state", "Describe the state; with --list, show it, or only groups in one of these.", Value.OPTIONAL
    ),
    Flag("type", "With --list, show the type, or only groups of one of these.", Value.OPTIONAL),
    switch("offsets", "Describe the offsets, as without any of these."),
    switch("verbose", "Tell more."),
    switch("to-earliest", "To where the logs begin."),
    switch("to-latest", "To where the logs end."),
    switch("to-current", "To where the group is."),
    number("to-offset", "To an offset."),
    Flag("to-datetime", "To the first record from 2020-01-01T00:00:00.000 (UTC, or with a zone) on."),
    Flag("by-duration", "To the first record of the last PnDTnHnMnS."),
    number("shift-by", "On by so many, or back if it is negative."),
    Flag(
        "from-file",
        "To what a file of topic,partition,offset says, with the group first if there are several.",
    ),
    switch("dry-run", "Change nothing."),
    switch("execute", "Do it."),
    switch("export", "Print the new offsets as such a file."),
    number("timeout", "How long a call may take, in ms."),
    Flag("command-config", "A properties file for the client."),
    switch("new-consumer", "Ignored: --zookeeper or --bootstrap-server tells which groups are meant."),
)
USAGE = Usage(
    "kafka-consumer-groups",
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or "
    "reset consumer group offsets.",
    FLAGS,
)
