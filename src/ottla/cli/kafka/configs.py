"""kafka-configs: settings of topics, brokers, loggers, client metrics and groups; quotas of clients, users
and addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from ottla.admin import Admin
from ottla.admin.zookeeper_topics import ZooKeeperTopics
from ottla.cli.kafka import client_quotas, config_resources
from ottla.cli.kafka.answers import java_error
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.java_order import java_order
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import ToolRefused, one_action, run_tool, show, tool_of
from ottla.cli.kafka.usage.configs import DEFAULTS, SHORTCUTS, USAGE
from ottla.cli.kafka.zookeeper_session import zookeeper_session
from ottla.model.errors import KafkaError
from ottla.model.java_properties import read_properties
from ottla.zookeeper import paths
from ottla.zookeeper.recipes import children_if_present

_WORDS_0_9 = {"topics": "topic", "clients": "clientId"}
_PAIR = re.compile(r"\s*([^=,\s]+)\s*=\s*(\[[^\]]*\]|[^,=]*)\s*(?:,|$)")
_CONFIG_NAME, _NUMBER = re.compile(r"[$a-zA-Z0-9._-]*"), re.compile(r"[-+]?[0-9]+")
_KINDS = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
_HAS_DEFAULT = ("users", "clients", "brokers", "ips")
_OF_BROKERS = ("brokers", "broker-loggers")


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
    entity = _entity(action, options)
    kind, name = entity[0]
    properties = admin_properties(options)
    if action == "describe":
        if kind in client_quotas.KINDS:
            client_quotas.describe(properties, entity)
            return 0
        with Admin(properties) as admin:
            resource_kind, tells_all = config_resources.KINDS[kind], options.has("all")
            config_resources.describe(admin, resource_kind, name, tells_all=tells_all)
        return 0
    changes = _changes(options)
    if kind in client_quotas.KINDS:
        client_quotas.alter(properties, entity, changes)
    else:
        with Admin(properties) as admin:
            config_resources.alter(admin, config_resources.KINDS[kind], name or "", changes)
    default_text = f"default config for {kind} in the cluster"
    show(f"Completed updating {f'config for {kind[:-1]} {name}' if name else default_text}.")
    return 0


def _entity(action: str, options: Options) -> list[tuple[str, str | None]]:
    """Return entity types and names: "" is the default entity, None all entities.

    Only users and clients can be combined. What is wrong is found in Kafka's order.
    """
    short = [flag for flag in SHORTCUTS if options.has(flag)]
    defaults = [flag for flag in DEFAULTS if options.has(f"{flag}-defaults")]
    kinds = [*options.values("entity-type"), *(SHORTCUTS[flag] for flag in (*short, *defaults))]
    _check_kinds(kinds, options)
    in_parts = options.any_of("entity-type", "entity-name", "entity-default")
    if in_parts and (short or defaults):
        raise ToolRefused(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    if options.has("entity-name") and options.has("entity-default"):
        raise ToolRefused(
            "--entity-name and --entity-default together: say --user-defaults or --client-defaults"
        )
    names = [""] if options.has("entity-default") else [*options.values("entity-name")]
    names += [*(options.text(flag) for flag in short), *("" for _ in defaults)]
    _check_names(action, kinds, names, options)
    return list(zip_longest(kinds, names))


def _check_kinds(kinds: Sequence[str], options: Options) -> None:
    twice = [kind for at, kind in enumerate(kinds) if kind in kinds[:at]]
    if twice:
        raise ToolRefused(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if not options.has("bootstrap-server"):
        raise ToolRefused("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in kinds:
        if kind not in _KINDS:
            raise ToolRefused(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(_KINDS)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not kinds:
        raise ToolRefused("At least one entity type must be specified")
    if len(kinds) > 1 and {*kinds} != {"users", "clients"}:
        raise ToolRefused("Only 'users' and 'clients' entity types may be specified together")


def _check_names(action: str, kinds: Sequence[str], names: Sequence[str], options: Options) -> None:
    for name in names:
        if name and kinds[0] in _OF_BROKERS and not _NUMBER.fullmatch(name):
            raise ToolRefused(
                f"The entity name for {kinds[0]} must be a valid integer broker id, but it is: {name}"
            )
    has_default = not {*kinds}.isdisjoint(_HAS_DEFAULT)
    needs_name = action == "alter" or "broker-loggers" in kinds
    if action == "describe" and options.has("entity-default") and not has_default:
        raise ToolRefused(f"--entity-default must not be specified with --describe of {','.join(kinds)}")
    if action == "alter" and has_default and not names:
        raise ToolRefused(
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or "
            "ips"
        )
    if needs_name and not has_default and not any(names):
        raise ToolRefused(f"An entity name must be specified with --{action} of {','.join(kinds)}")
    if action == "alter":
        _check_changes(options)
    if len(names) > len(kinds) or (action == "alter" and len(names) < len(kinds)):
        raise ToolRefused("An entity name must be specified for every entity type")


def _check_changes(options: Options) -> None:
    if options.has("add-config") and options.has("add-config-file"):
        raise ToolRefused("Only one of --add-config or --add-config-file must be specified")
    if not options.any_of("add-config", "add-config-file", "delete-config"):
        raise ToolRefused(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with "
            "--alter"
        )


def _changes(options: Options) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    if options.has("add-config-file"):
        changes |= read_properties(options.text("add-config-file"))
    changes |= added(options.values("add-config"))
    for name in changes:
        if not _CONFIG_NAME.fullmatch(name):
            raise ToolRefused(f"Invalid character found for config key: {name}")
    for text in options.values("delete-config"):
        changes |= dict.fromkeys((part.strip() for part in text.split(",") if part.strip()), None)
    return changes


def added(texts: Iterable[str]) -> dict[str, str]:
    """Parse `a=1,b=[2,3]`; a value with commas is in brackets."""
    properties: dict[str, str] = {}
    for text in texts:
        at = 0
        while at < len(text):
            match = _PAIR.match(text, at)
            if match is None:
                raise ToolRefused(
                    "requirement failed: Invalid entity config: all configs to be added must be in the "
                    'format "key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            properties[match[1]] = match[2].removeprefix("[").removesuffix("]").strip()
            at = match.end()
    return properties


# --- as Kafka 0.9


def _in_zookeeper(action: str, options: Options) -> int:
    kind = options.text("entity-type")
    if kind not in _WORDS_0_9:
        raise WrongFlags("--entity-type must be 'topics' or 'clients'")
    with zookeeper_session(options.text("zookeeper")) as session:
        topics = ZooKeeperTopics(session)
        if action == "alter":
            if not options.has("entity-name"):
                raise WrongFlags('Missing required argument "[entity-name]"')
            name = options.text("entity-name")
            _check_changes(options)
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
