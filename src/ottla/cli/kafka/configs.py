"""kafka-configs: settings of topics and brokers; quotas of clients, users and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

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
from ottla.cli.kafka import client_quotas
from ottla.cli.kafka.answers import java_error
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.java_order import java_order
from ottla.cli.kafka.keeper import keeper
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import ToolRefused, one_action, run_tool, show, tool_of
from ottla.cli.kafka.usage.configs import SHORTCUTS, USAGE
from ottla.model.errors import ConfigError, KafkaError
from ottla.model.java_properties import read_properties
from ottla.zookeeper import paths
from ottla.zookeeper.recipes import children_if_present

_OWN = {
    ConfigKind.TOPIC: {ConfigSource.DYNAMIC_TOPIC_CONFIG},
    ConfigKind.BROKER: {ConfigSource.DYNAMIC_BROKER_CONFIG},
}
_WORDS_0_9 = {"topics": "topic", "clients": "clientId"}
_PAIR = re.compile(r"\s*([^=,\s]+)\s*=\s*(\[[^\]]*\]|[^,]*)\s*(?:,|$)")


def run(arguments: Sequence[str]) -> int:
    """Print or change settings."""

    def act(options: Options) -> int:
        try:
            return _act(options)
        except KafkaError as error:
            line = " ".join(arguments)
            raise ToolRefused(
                f"Error while executing config command with args '{line}'\n"
                f"java.util.concurrent.ExecutionException: {java_error(error)}"
            ) from error

    return run_tool(TOOL._replace(act=act), arguments)


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
    entity = _entity(options)
    kind, name = entity[0]
    if action == "alter" and any(entity_name is None for _, entity_name in entity):
        which = "users, clients, brokers or ips" if kind != "topics" else "topics"
        default = " or default entity" if kind != "topics" else ""
        raise ToolRefused(f"An entity-name{default} must be specified with --alter of {which}")
    if kind in client_quotas.KINDS:
        if action == "describe":
            client_quotas.describe(admin_properties(options), entity)
            return 0
        client_quotas.alter(admin_properties(options), entity, _changes(options))
    else:
        with Admin(admin_properties(options)) as admin:
            if action == "describe":
                for resource in _resources(admin, kind, name):
                    _describe(admin, resource, tells_all=options.has("all"))
                return 0
            (resource,) = _resources(admin, kind, name)
            admin.alter_configs(resource, _changes(options))
    default_text = f"default config for {kind} in the cluster"
    show(f"Completed updating {f'config for {kind[:-1]} {name}' if name else default_text}.")
    return 0


def _entity(options: Options) -> list[tuple[str, str | None]]:
    """Return entity types and names: "" is the default entity, None all entities.

    Only users and clients can be combined.
    """
    kinds = options.values("entity-type")
    if options.has("entity-name") and options.has("entity-default"):
        raise ToolRefused(
            "--entity-name and --entity-default together: say --user-defaults or --client-defaults"
        )
    names: list[str | None] = [""] if options.has("entity-default") else [*options.values("entity-name")]
    for kind in kinds:
        if kind not in ("topics", "brokers", *client_quotas.KINDS):
            raise ConfigError(
                f"--entity-type {kind}: topics, brokers, clients, users and ips are known here, and with "
                "--zookeeper topics and clients"
            )
    if len(names) > len(kinds):
        raise ToolRefused("More entity names specified than entity types")
    entities: list[tuple[str, str | None]] = list(zip_longest(kinds, names))
    entities += [(f"{kind}s", options.text(kind)) for kind in SHORTCUTS if options.has(kind)]
    entities += [(f"{kind}s", "") for kind in SHORTCUTS[1:] if options.has(f"{kind}-defaults")]
    if not entities:
        raise WrongFlags("At least one entity type must be specified")
    if len(entities) > 1 and sorted(kind for kind, _ in entities) != ["clients", "users"]:
        raise ToolRefused("Only users and clients may be given together")
    return entities


def _resources(admin: Admin, kind: str, name: str | None) -> list[ConfigResource]:
    if kind == "topics":
        names = java_order(admin.list_topics()) if name is None else [name]
        return [topic_resource(name) for name in names]
    if name is None:
        numbers = [broker.broker_id for broker in admin.describe_cluster().brokers]
        return [*(broker_resource(number) for number in numbers), broker_resource(None)]
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
    synonyms = ", ".join(
        f"{synonym.source.name}:{synonym.name}={_value(synonym.value)}" for synonym in entry.synonyms
    )
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
        changes |= dict.fromkeys((part.strip() for part in text.split(",") if part.strip()), None)
    if not changes:
        raise WrongFlags(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with "
            "--alter"
        )
    return changes


def added(texts: Iterable[str]) -> dict[str, str]:
    """Parse `a=1,b=[2,3]`; a value with commas is in brackets."""
    properties: dict[str, str] = {}
    for text in texts:
        at = 0
        while at < len(text):
            match = _PAIR.match(text, at)
            if match is None:
                raise WrongFlags(
                    "requirement failed: Invalid entity config: all configs to be added must be in the "
                    'format "key=val".'
                )
            properties[match[1]] = match[2].removeprefix("[").removesuffix("]").strip()
            at = match.end()
    return properties


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
            configs = topics.configs(kind, name)
            settings = ",".join(f"{key}={configs[key]}" for key in java_order(configs))
            show(f"Configs for {kind}:{name} are {settings}")
    return 0


TOOL = tool_of(USAGE, _act)
