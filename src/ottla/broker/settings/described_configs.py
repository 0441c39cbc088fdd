"""DescribeConfigs: the settings of a topic or broker, where each value comes from, and its synonyms.

A value's sources, the strongest first: the topic's override, what admin clients set for this broker, what
they set for all, the properties that the broker was started with, the default. `synonyms` lists every source
that gives a value, in that order; the first is in force. A config made in code is described as if the broker
had been started with the properties that mean the same.

Two deliberate differences from Kafka 3.9. Kafka leaves out a topic's synonyms when only a coarse one is given
(log.retention.hours) and calls such a value a default; here it is named. And for version 0, which only tells
defaults from others, a topic's value is a default unless the topic overrides it; Kafka calls none a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import dropwhile
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides, with_both_ids
from ottla.broker.settings.broker_table import BROKER_SETTINGS, sharing
from ottla.broker.settings.client_metrics import METRICS_SETTINGS
from ottla.broker.settings.config_changes import unknown_type
from ottla.broker.settings.config_view import ConfigResourceType, ConfigView
from ottla.broker.settings.group_table import GROUP_SETTINGS
from ottla.broker.settings.idle_table import IDLE_SETTINGS
from ottla.broker.settings.ignored_names import is_secret
from ottla.broker.settings.listeners import PLAINTEXT, ListedAddress
from ottla.broker.settings.loggers import logger_levels
from ottla.broker.settings.security_table import listener_setting
from ottla.broker.settings.setting import Setting, SettingTable, UpdateMode
from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.model.error_codes import Code
from ottla.model.property_table import PASSWORD, Kind, text_of
from ottla.wire.api.create_topics import CreatedTopicConfig
from ottla.wire.api.describe_configs import (
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribedConfig,
    DescribedResource,
)

NO_OVERRIDES = DynamicOverrides()
_DEFAULTS = BrokerConfig(data_dir=Path())


class ValueSource(IntEnum):
    """Where a value comes from: the codes of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(IntEnum):
    """The type of a value: the codes of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


def _type(kind: Kind) -> ConfigType:
    return ConfigType[kind.name.upper()]


class ValueSynonym(NamedTuple):
    """A setting that gives a value, and where it was set."""

    name: str
    value: str | None
    source: ValueSource


Layers = tuple[tuple[ValueSource, Mapping[str, str]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSetting:
    """One setting, with all that any version of the response can carry."""

    name: str
    value: str | None
    source: ValueSource
    is_default: bool
    read_only: bool = False
    sensitive: bool = False
    type: ConfigType
    documentation: str
    synonyms: tuple[ValueSynonym, ...]

    def answer(self, request: DescribeConfigsRequest) -> DescribedConfig:
        """Return the form on the wire. `is_default` is for version 0; the handler clears it for others."""
        synonyms = self.synonyms if request.include_synonyms else ()
        return DescribedConfig(
            name=self.name,
            value=self.value,
            read_only=self.read_only,
            is_default=self.is_default,
            config_source=self.source,
            is_sensitive=self.sensitive,
            synonyms=[
                ConfigSynonym(name=name, value=value, source=source) for name, value, source in synonyms
            ],
            config_type=self.type,
            documentation=self.documentation if request.include_documentation else None,
        )


def described_topic(
    config: BrokerConfig, overrides: Mapping[str, str], dynamic: DynamicOverrides = NO_OVERRIDES
) -> list[DescribedSetting]:
    """Return all settings of a topic by name. `config` is what the broker was started with."""
    layers = _layers(config, dynamic)
    described = []
    for row in sorted(TOPIC_SETTINGS.values(), key=attrgetter("name")):
        synonyms = _synonyms(row.broker_names, layers)
        value = _in_force(synonyms, text_of(row.default))
        if row.name in overrides:
            value = text_of(row.read(overrides[row.name]))
            synonyms = (ValueSynonym(row.name, value, ValueSource.DYNAMIC_TOPIC), *synonyms)
        described.append(
            DescribedSetting(
                name=row.name,
                value=value,
                source=_source(synonyms),
                is_default=row.name not in overrides,
                type=_type(row.kind),
                documentation=row.doc,
                synonyms=synonyms,
            )
        )
    return described


def described_broker(
    config: BrokerConfig, dynamic: DynamicOverrides = NO_OVERRIDES
) -> list[DescribedSetting]:
    """Return all settings of a broker by name, with the properties that have no meaning here."""
    layers = _layers(config, dynamic)
    described = [_broker_entry(row, _own(row, layers)) for row in BROKER_SETTINGS.values()]
    described += [_idle_entry(row, layers) for row in IDLE_SETTINGS.values()]
    described += [
        _ignored_entry(name, config.properties[name]) for name in config.ignored if name not in IDLE_SETTINGS
    ]
    described += [_unknown_entry(name, layers) for name in _unknown(dynamic.broker, dynamic.default)]
    for name in config.properties:
        row = listener_setting(name)
        if row is not None:
            described.append(_broker_entry(replace(row, name=name), _given((name,), layers)))
    return sorted(described, key=attrgetter("name"))


def described_defaults(dynamic: DynamicOverrides) -> list[DescribedSetting]:
    """Return what admin clients have set for all brokers: the broker resource without a name."""
    layers: Layers = ((ValueSource.DYNAMIC_DEFAULT_BROKER, dynamic.default),)
    rows = {**BROKER_SETTINGS, **IDLE_SETTINGS}
    unknown = [_unknown_entry(name, layers) for name in _unknown(dynamic.default)]
    known = [_broker_entry(rows[name], _given((name,), layers)) for name in dynamic.default if name in rows]
    return sorted([*known, *unknown], key=attrgetter("name"))


def described_resources(request: DescribeConfigsRequest, view: ConfigView) -> Iterator[DescribedResource]:
    """Yield the answer for each resource, as version 0 needs it: see `DescribedSetting.answer`."""
    for resource in request.resources:
        result = DescribedResource(
            error_code=Code.NONE,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        wanted = set(resource.configuration_keys or ())
        try:
            entries = _entries(resource, view)
            result.configs = [
                setting.answer(request) for setting in entries if not wanted or setting.name in wanted
            ]
        except ConfigRefused as error:
            result.error_code, result.error_message = error.code, error.reason
        yield result


def created_configs(described: Iterable[DescribedSetting]) -> list[CreatedTopicConfig]:
    """Return the settings of a new topic for the answer of CreateTopics, version 5 and later."""
    return [
        CreatedTopicConfig(
            name=setting.name,
            value=setting.value,
            read_only=setting.read_only,
            config_source=setting.source,
            is_sensitive=setting.sensitive,
        )
        for setting in described
    ]


def static_properties(config: BrokerConfig) -> dict[str, str]:
    """Return the properties that a config was made from, or could have been."""
    texts = with_both_ids(config.properties)
    for row in BROKER_SETTINGS.values():
        if row.target and not any(name in texts for name in sharing(row)):
            value = attrgetter(row.target)(config)
            if value != attrgetter(row.target)(_DEFAULTS):
                texts[row.name] = text_of(value if row.factor == 1 else value // row.factor) or ""
    bound = ListedAddress(PLAINTEXT, config.host, config.port)
    if not texts.keys() & {"listeners", "host.name", "port"} and bound[1:] != (
        _DEFAULTS.host,
        _DEFAULTS.port,
    ):
        texts["listeners"] = str(bound)
    advertised = ListedAddress(PLAINTEXT, config.advertised_host, config.advertised_port)
    if advertised.host and not texts.keys() & {"advertised.listeners", "advertised.host.name"}:
        texts["advertised.listeners"] = str(advertised)
    texts.setdefault("log.dirs", str(config.data_dir))
    return with_both_ids(texts)


def _layers(config: BrokerConfig, dynamic: DynamicOverrides) -> Layers:
    return (
        (ValueSource.DYNAMIC_BROKER, dynamic.broker),
        (ValueSource.DYNAMIC_DEFAULT_BROKER, dynamic.default),
        (ValueSource.STATIC_BROKER, static_properties(config)),
    )


def _synonyms(names: tuple[str, ...], layers: Layers) -> tuple[ValueSynonym, ...]:
    given = _given(names, layers)
    defaults = [(name, text_of(BROKER_SETTINGS[name].default)) for name in names]
    return (
        *given,
        *(ValueSynonym(name, text, ValueSource.DEFAULT) for name, text in defaults if text is not None),
    )


def _given(names: Iterable[str], layers: Layers) -> tuple[ValueSynonym, ...]:
    """Return what was set under these names, the strongest first."""
    return tuple(
        ValueSynonym(name, texts[name], source) for source, texts in layers for name in names if name in texts
    )


def _own(row: Setting, layers: Layers) -> tuple[ValueSynonym, ...]:
    """Return the synonyms from a setting's own name on: a broker reports the value of that name."""
    return tuple(dropwhile(lambda synonym: synonym.name != row.name, _synonyms(sharing(row), layers)))


def _in_force(synonyms: tuple[ValueSynonym, ...], default: str | None) -> str | None:
    """Return the first value, in the unit of a topic's setting."""
    if not synonyms or synonyms[0].value is None:
        return default
    return text_of(BROKER_SETTINGS[synonyms[0].name].scaled(synonyms[0].value))


def _source(synonyms: tuple[ValueSynonym, ...]) -> ValueSource:
    return synonyms[0].source if synonyms else ValueSource.DEFAULT


def _broker_entry(row: Setting, synonyms: tuple[ValueSynonym, ...]) -> DescribedSetting:
    is_secret = row.kind is PASSWORD
    if is_secret:
        synonyms = tuple(synonym._replace(value=None) for synonym in synonyms)
    value = synonyms[0].value if synonyms else None
    source = _source(synonyms)
    return DescribedSetting(
        name=row.name,
        value=None if value is None else text_of(row.read(value)),
        sensitive=is_secret,
        source=source,
        is_default=source is ValueSource.DEFAULT,
        read_only=row.update is UpdateMode.READ_ONLY,
        type=_type(row.kind),
        documentation=row.doc,
        synonyms=synonyms,
    )


def _idle_entry(row: Setting, layers: Layers) -> DescribedSetting:
    default = ValueSynonym(row.name, text_of(row.default), ValueSource.DEFAULT)
    return _broker_entry(row, (*_given((row.name,), layers), default))


def _unknown(*overrides: Mapping[str, str]) -> set[str]:
    """Return the names that admin clients have set and that no broker knows."""
    return {name for texts in overrides for name in texts} - BROKER_SETTINGS.keys() - IDLE_SETTINGS.keys()


def _unknown_entry(name: str, layers: Layers) -> DescribedSetting:
    """A setting of some plugin: its value may be a secret, and is not shown."""
    sources = [synonym.source for synonym in _given((name,), layers)]
    return DescribedSetting(
        name=name,
        value=None,
        source=sources[0],
        is_default=False,
        read_only=True,
        sensitive=True,
        type=ConfigType.UNKNOWN,
        documentation="A name that an admin client has set and that this broker does not know.",
        synonyms=tuple(ValueSynonym(name, None, source) for source in sources),
    )


def _ignored_entry(name: str, text: str) -> DescribedSetting:
    value = None if is_secret(name) else text
    return DescribedSetting(
        name=name,
        value=value,
        source=ValueSource.STATIC_BROKER,
        is_default=False,
        read_only=True,
        sensitive=is_secret(name),
        type=ConfigType.PASSWORD if is_secret(name) else ConfigType.STRING,
        documentation="A setting of Kafka that has no meaning in this broker.",
        synonyms=(ValueSynonym(name, value, ValueSource.STATIC_BROKER),),
    )


def _entries(resource: DescribeConfigsResource, view: ConfigView) -> list[DescribedSetting]:
    name = resource.resource_name
    if resource.resource_type == ConfigResourceType.TOPIC:
        if not name:
            raise ConfigRefused(Code.INVALID_TOPIC_EXCEPTION, "topics have no common settings; name a topic")
        return described_topic(view.config, view.existing(name), view.dynamic)
    if resource.resource_type == ConfigResourceType.BROKER:
        if view.names_this_broker(name):
            return described_broker(view.config, view.dynamic)
        return described_defaults(view.dynamic)
    if resource.resource_type == ConfigResourceType.GROUP:
        overrides = view.named(ConfigResourceType.GROUP, name)
        return _named(GROUP_SETTINGS, overrides, ValueSource.GROUP, _layers(view.config, view.dynamic))
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        overrides = view.named(ConfigResourceType.CLIENT_METRICS, name)
        return _named(METRICS_SETTINGS, overrides, ValueSource.CLIENT_METRICS)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        if not view.names_this_broker(name):
            raise ConfigRefused(Code.INVALID_REQUEST, "loggers belong to a broker: name it")
        return [_logger_entry(*level) for level in logger_levels().items()]
    raise unknown_type(resource.resource_type)


def _named(
    table: SettingTable, overrides: Mapping[str, str], source: ValueSource, layers: Layers = ()
) -> list[DescribedSetting]:
    """The settings of a group or of client metrics: what was set, or else what the broker has."""
    described = []
    for row in sorted(table.values(), key=attrgetter("name")):
        given = _given((row.name,), ((source, overrides),))
        fallback = _synonyms(row.broker_names, layers) or (
            ValueSynonym(row.name, text_of(row.default), ValueSource.DEFAULT),
        )
        described.append(
            replace(_broker_entry(row, (*given, *fallback)), read_only=False, type=_type(row.kind))
        )
    return described


def _logger_entry(name: str, level: str) -> DescribedSetting:
    return DescribedSetting(
        name=name,
        value=level,
        source=ValueSource.DYNAMIC_LOGGER,
        is_default=False,
        type=ConfigType.UNKNOWN,
        documentation="",
        synonyms=(),
    )
