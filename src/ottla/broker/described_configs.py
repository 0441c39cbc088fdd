"""DescribeConfigs: the settings of a topic or broker, where each value comes from, and its synonyms.

A value's sources, the strongest first: the topic's override, what admin clients set for this broker, what
they set for all, the properties that the broker was started with, the default. `synonyms` lists every place
that gives a value, in that order; the first is the one in force. A config made in code is described as if it
had been started with the properties that say the same.

Two deliberate differences from Kafka 3.9. Kafka leaves out a topic's synonyms when only a coarse one is given
(log.retention.hours) and calls such a value a default; here it is named. And for version 0, which only tells
defaults from others, a topic's value is a default unless the topic overrides it; Kafka calls none a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ottla.broker.config import BrokerConfig, DynamicOverrides, with_both_ids
from ottla.broker.config_view import ConfigView, ResourceType
from ottla.broker.settings.broker_table import BROKER_SETTINGS, sharing
from ottla.broker.settings.ignored_names import is_secret
from ottla.broker.settings.listeners import Listener
from ottla.broker.settings.setting import Setting, SettingType, UpdateMode, text_of
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.broker.topic_settings import ConfigRefused
from ottla.model.error_codes import Code
from ottla.wire.api.create_topics import CreatedTopicConfig
from ottla.wire.api.describe_configs import (
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedResource,
)

NO_OVERRIDES = DynamicOverrides()
_DEFAULTS = BrokerConfig(data_dir=Path())


class Source(IntEnum):
    """Where a value comes from: the codes of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    """One place that gives a value."""

    name: str
    value: str | None
    source: Source


Layers = tuple[tuple[Source, Mapping[str, str]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One setting, in every respect that any version of the response can carry."""

    name: str
    value: str | None
    source: Source
    is_default: bool
    read_only: bool = False
    sensitive: bool = False
    type: SettingType
    documentation: str
    synonyms: tuple[Synonym, ...]

    def answer(self, request: DescribeConfigsRequest) -> DescribedConfig:
        """The form on the wire. Only version 0 has `is_default`; who sends a later one clears it."""
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
) -> list[Described]:
    """All settings of a topic by name. `config` is the one that the broker was started with."""
    layers = _layers(config, dynamic)
    described = []
    for row in sorted(TOPIC_SETTINGS.values(), key=attrgetter("name")):
        synonyms = _synonyms(row.synonyms, layers)
        value = _in_force(synonyms, text_of(row.default))
        if row.name in overrides:
            value = text_of(row.parse(overrides[row.name]))
            synonyms = (Synonym(row.name, value, Source.DYNAMIC_TOPIC), *synonyms)
        described.append(
            Described(
                name=row.name,
                value=value,
                source=_source(synonyms),
                is_default=row.name not in overrides,
                type=row.type,
                documentation=row.doc,
                synonyms=synonyms,
            )
        )
    return described


def described_broker(config: BrokerConfig, dynamic: DynamicOverrides = NO_OVERRIDES) -> list[Described]:
    """All settings of a broker by name, and what it was given without a meaning."""
    layers = _layers(config, dynamic)
    described = [_broker_entry(row, _own(row, layers)) for row in BROKER_SETTINGS.values()]
    described += [_ignored_entry(name, config.properties[name]) for name in config.ignored]
    return sorted(described, key=attrgetter("name"))


def described_defaults(dynamic: DynamicOverrides) -> list[Described]:
    """What admin clients have set for all brokers: the broker resource without a name."""
    return [
        _broker_entry(
            BROKER_SETTINGS[name],
            (Synonym(name, dynamic.default[name], Source.DYNAMIC_DEFAULT_BROKER),),
        )
        for name in sorted(dynamic.default)
    ]


def describe(request: DescribeConfigsRequest, view: ConfigView) -> DescribeConfigsResponse:
    """The answer to a whole request, as version 0 needs it: see `Described.answer`."""
    results = []
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
            result.configs = [one.answer(request) for one in entries if not wanted or one.name in wanted]
        except ConfigRefused as error:
            result.error_code, result.error_message = error.code, error.reason
        results.append(result)
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def created_configs(described: Iterable[Described]) -> list[CreatedTopicConfig]:
    """The settings of a new topic as CreateTopics tells them from version 5 on."""
    return [
        CreatedTopicConfig(
            name=one.name,
            value=one.value,
            read_only=one.read_only,
            config_source=one.source,
            is_sensitive=one.sensitive,
        )
        for one in described
    ]


def static_properties(config: BrokerConfig) -> dict[str, str]:
    """The properties that a config was made from, or could have been."""
    texts = with_both_ids(config.properties)
    for row in BROKER_SETTINGS.values():
        if row.target and not any(name in texts for name in sharing(row)):
            value = attrgetter(row.target)(config)
            if value != attrgetter(row.target)(_DEFAULTS):
                texts[row.name] = text_of(value if row.factor == 1 else value // row.factor) or ""
    bound = Listener("PLAINTEXT", config.host, config.port)
    if not texts.keys() & {"listeners", "host.name", "port"} and bound[1:] != (
        _DEFAULTS.host,
        _DEFAULTS.port,
    ):
        texts["listeners"] = str(bound)
    told = Listener("PLAINTEXT", config.advertised_host, config.advertised_port)
    if told.host and not texts.keys() & {"advertised.listeners", "advertised.host.name"}:
        texts["advertised.listeners"] = str(told)
    return with_both_ids(texts)


def _layers(config: BrokerConfig, dynamic: DynamicOverrides) -> Layers:
    return (
        (Source.DYNAMIC_BROKER, dynamic.broker),
        (Source.DYNAMIC_DEFAULT_BROKER, dynamic.default),
        (Source.STATIC_BROKER, static_properties(config)),
    )


def _synonyms(names: tuple[str, ...], layers: Layers) -> tuple[Synonym, ...]:
    given = [
        Synonym(name, texts[name], source) for source, texts in layers for name in names if name in texts
    ]
    defaults = [(name, text_of(BROKER_SETTINGS[name].default)) for name in names]
    return (*given, *(Synonym(name, text, Source.DEFAULT) for name, text in defaults if text is not None))


def _own(row: Setting, layers: Layers) -> tuple[Synonym, ...]:
    """A broker's setting has the value under its own name; stronger names are not its synonyms."""
    return tuple(dropwhile(lambda one: one.name != row.name, _synonyms(sharing(row), layers)))


def _in_force(synonyms: tuple[Synonym, ...], default: str | None) -> str | None:
    """The first value, in the unit of a topic's setting."""
    if not synonyms or synonyms[0].value is None:
        return default
    return text_of(BROKER_SETTINGS[synonyms[0].name].scaled(synonyms[0].value))


def _source(synonyms: tuple[Synonym, ...]) -> Source:
    return synonyms[0].source if synonyms else Source.DEFAULT


def _broker_entry(row: Setting, synonyms: tuple[Synonym, ...]) -> Described:
    value = synonyms[0].value if synonyms else None
    source = _source(synonyms)
    return Described(
        name=row.name,
        value=None if value is None else text_of(row.parse(value)),
        source=source,
        is_default=source is Source.DEFAULT,
        read_only=row.update is UpdateMode.READ_ONLY,
        type=row.type,
        documentation=row.doc,
        synonyms=synonyms,
    )


def _ignored_entry(name: str, text: str) -> Described:
    value = None if is_secret(name) else text
    return Described(
        name=name,
        value=value,
        source=Source.STATIC_BROKER,
        is_default=False,
        read_only=True,
        sensitive=is_secret(name),
        type=SettingType.PASSWORD if is_secret(name) else SettingType.STRING,
        documentation="A setting of Kafka's that has no meaning in this broker.",
        synonyms=(Synonym(name, value, Source.STATIC_BROKER),),
    )


def _entries(resource: DescribeConfigsResource, view: ConfigView) -> list[Described]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        return described_topic(view.config, view.existing(name), view.dynamic)
    if resource.resource_type == ResourceType.BROKER:
        if view.names_this_broker(name):
            return described_broker(view.config, view.dynamic)
        return described_defaults(view.dynamic)
    raise ConfigRefused(
        Code.INVALID_REQUEST,
        f"resource type {resource.resource_type}: only topics (2) and brokers (4) have settings",
    )
