"""kafka-configs: settings of topics, brokers and, with --zookeeper, clients."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ottla.admin import (
    Admin,
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    broker_resource,
    topic_resource,
)
from ottla.admin.zookeeper_topics import ZooKeeperTopics
from ottla.broker.settings.java_properties import read_properties
from ottla.cli.kafka.answers import java_error
from ottla.cli.kafka.flags import Flag, Options, WrongFlags, switch
from ottla.cli.kafka.java_order import java_order
from ottla.cli.kafka.keeper import keeper
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import Refused, Tool, one_action, run_tool, show
from ottla.model.errors import ConfigError, KafkaError
from ottla.zookeeper import paths
from ottla.zookeeper.recipes import children_if_present

FLAGS = (
    switch("describe", "Tell settings."),
    switch("alter", "Change settings."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper. The text is Kafka 0.9's."),
    Flag("entity-type", "topics, brokers, or with --zookeeper clients."),
    Flag("entity-name", "A topic, a broker's id, a client's id."),
    switch("entity-default", "The defaults of all brokers."),
    Flag("topic", "--entity-type topics --entity-name, in one."),
    Flag("broker", "--entity-type brokers --entity-name, in one."),
    switch("broker-defaults", "--entity-type brokers --entity-default, in one."),
    Flag("add-config", "name=value,name=[value,value],..."),
    Flag("add-config-file", "A properties file with them."),
    Flag("delete-config", "name,name,... that go back to their defaults."),
    switch("all", "Also those that are not set."),
    Flag("command-config", "A properties file for the client."),
    switch("force", "Ask no questions. None are asked anyway."),
)
_OWN = {
    ConfigKind.TOPIC: {ConfigSource.DYNAMIC_TOPIC_CONFIG},
    ConfigKind.BROKER: {ConfigSource.DYNAMIC_BROKER_CONFIG},
}
_WORDS_0_9 = {"topics": "topic", "clients": "clientId"}
_PAIR = re.compile(r"\s*([^=,\s]+)\s*=\s*(\[[^\]]*\]|[^,]*)\s*(?:,|$)")


def run(arguments: Sequence[str]) -> int:
    """Tell or change settings."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    action = one_action(
        options, ("describe", "alter"), "Command must include exactly one action: --describe, --alter"
    )
    if options.has("zookeeper"):
        return _in_zookeeper(action, options)
    if not options.has("bootstrap-server"):
        raise WrongFlags(
            "One of the required --bootstrap-server or --bootstrap-controller arguments must be specified"
        )
    kind, name = _entity(options)
    with Admin(admin_properties(options)) as admin:
        if action == "describe":
            for resource in _resources(admin, kind, name):
                _describe(admin, resource, tells_all=options.has("all"))
            return 0
        if name is None:
            raise WrongFlags("An entity name must be specified with --alter of " + kind)
        (resource,) = _resources(admin, kind, name)
        try:
            admin.alter_configs(resource, _changes(options))
        except KafkaError as error:
            raise Refused(
                "Error while executing config command\n"
                f"java.util.concurrent.ExecutionException: {java_error(error)}"
            ) from error
    is_default = resource.kind is ConfigKind.BROKER and not resource.name
    what = "default config for brokers in the cluster" if is_default else f"config for {_named(resource)}"
    show(f"Completed updating {what}.")
    return 0


def _entity(options: Options) -> tuple[str, str | None]:
    """The type, and the name: "" is the default, None is all."""
    for shortcut, kind in (("topic", "topics"), ("broker", "brokers")):
        if options.has(shortcut):
            return kind, options.text(shortcut)
    if options.has("broker-defaults"):
        return "brokers", ""
    if not options.has("entity-type"):
        raise WrongFlags("At least one entity type must be specified")
    kind = options.text("entity-type")
    if kind not in ("topics", "brokers"):
        raise ConfigError(
            f"--entity-type {kind}: topics and brokers are known here, and with --zookeeper clients"
        )
    return kind, "" if options.has("entity-default") else options.value("entity-name")


def _resources(admin: Admin, kind: str, name: str | None) -> list[ConfigResource]:
    if kind == "topics":
        names = java_order(admin.list_topics()) if name is None else [name]
        return [topic_resource(one) for one in names]
    if name is None:
        numbers = [one.broker_id for one in admin.describe_cluster().brokers]
        return [*(broker_resource(one) for one in numbers), broker_resource(None)]
    return [ConfigResource(ConfigKind.BROKER, name)]


def _named(resource: ConfigResource) -> str:
    return f"{resource.kind.name.lower()} {resource.name}"


def _describe(admin: Admin, resource: ConfigResource, *, tells_all: bool) -> None:
    is_default = resource.kind is ConfigKind.BROKER and not resource.name
    if is_default:
        show("Default configs for brokers in the cluster are:")
    else:
        show(f"{'All' if tells_all else 'Dynamic'} configs for {_named(resource)} are:")
    wanted = {ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG} if is_default else _OWN[resource.kind]
    for _, entry in sorted(admin.describe_configs(resource).items()):
        if tells_all or entry.source in wanted:
            show(_entry_line(entry))


def _entry_line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{one.source.name}:{one.name}={_value(one.value)}" for one in entry.synonyms)
    secret = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_value(entry.value)} sensitive={secret} synonyms={{{synonyms}}}"


def _value(text: str | None) -> str:
    return "null" if text is None else text


def _changes(options: Options) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    if options.has("add-config-file"):
        changes |= read_properties(options.text("add-config-file"))
    changes |= added(options.values("add-config"))
    for text in options.values("delete-config"):
        changes |= dict.fromkeys((one.strip() for one in text.split(",") if one.strip()), None)
    if not changes:
        raise WrongFlags(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with "
            "--alter"
        )
    return changes


def added(texts: Iterable[str]) -> dict[str, str]:
    """Of `a=1,b=[2,3]`: a value with commas is in brackets."""
    found: dict[str, str] = {}
    for text in texts:
        at = 0
        while at < len(text):
            match = _PAIR.match(text, at)
            if match is None:
                raise WrongFlags(
                    "requirement failed: Invalid entity config: all configs to be added must be in the "
                    'format "key=val".'
                )
            found[match[1]] = match[2].removeprefix("[").removesuffix("]").strip()
            at = match.end()
    return found


# --- as Kafka 0.9


def _in_zookeeper(action: str, options: Options) -> int:
    kind = options.text("entity-type")
    if kind not in _WORDS_0_9:
        raise WrongFlags("--entity-type must be 'topics' or 'clients'")
    with keeper(options.text("zookeeper")) as session:
        topics = ZooKeeperTopics(session)
        if action == "alter":
            if not options.has("entity-name"):
                raise WrongFlags('Missing required argument "[entity-name]"')
            name = options.text("entity-name")
            topics.alter_configs(kind, name, _changes(options), validate_only=False)
            show(f'Updated config for {_WORDS_0_9[kind]}: "{name}".')
            return 0
        every = (
            topics.names()
            if kind == "topics"
            else children_if_present(session, paths.parent(paths.entity_config(kind, "x")))
        )
        for name in [options.text("entity-name")] if options.has("entity-name") else every:
            found = topics.configs(kind, name)
            settings = ",".join(f"{key}={found[key]}" for key in java_order(found))
            show(f"Configs for {kind}:{name} are {settings}")
    return 0


TOOL = Tool(
    "kafka-configs",
    "This tool helps to manipulate and describe entity config for a topic or broker.",
    FLAGS,
    _act,
)
