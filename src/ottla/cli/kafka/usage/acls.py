"""The flags of kafka-acls."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, Value, switch

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("bootstrap-controller", "HOST:PORT,... of controllers. Give --bootstrap-server here."),
    Flag("command-config", "A properties file for the client.", Value.OPTIONAL),
    switch("add", "Add rules."),
    switch("remove", "Remove rules."),
    switch("list", "List rules: all, or those of the resources that are given."),
    Flag("topic", "A topic; * for all."),
    switch("cluster", "The cluster."),
    Flag("group", "A group; * for all."),
    Flag("transactional-id", "A transactional id; * for all."),
    Flag("delegation-token", "A delegation token; * for all."),
    Flag("user-principal", "A user as a resource, whose tokens others may make or see."),
    Flag("resource-pattern-type", "literal or prefixed; to list and remove also any or match."),
    Flag("operation", "What is allowed or denied: Read, Write, Describe, ...; All by default."),
    Flag("allow-principal", "Whom to allow it: User:NAME, or User:*."),
    Flag("deny-principal", "Whom to deny it. This wins over what is allowed."),
    Flag("principal", "With --list: only rules for it.", Value.OPTIONAL),
    Flag("allow-host", "From where it is allowed; by default from everywhere."),
    Flag("deny-host", "From where it is denied; by default from everywhere."),
    switch("producer", "What a producer needs: Write, Describe and Create of topics."),
    switch("consumer", "What a consumer needs: Read and Describe of topics, Read of groups."),
    switch("idempotent", "With --producer: IdempotentWrite of the cluster too."),
    switch("force", "Do not ask before rules are removed."),
)
USAGE = Usage("kafka-acls", "This tool helps to manage acls on kafka.", FLAGS)
