"""Settings of topics, brokers and clients: read, and changed one by one.

Three generations: IncrementalAlterConfigs (2.3); AlterConfigs (0.11), which replaces everything, so that what
is set is read first; and ZooKeeper's /config with a note in /config/changes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.config_values import (
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
)
from ottla.admin.errors import Unsupported, each, told_error
from ottla.admin.topic_values import ConfigValue, config_text
from ottla.admin.zookeeper_topics import ZooKeeperTopics
from ottla.client.connection import Connection
from ottla.model.errors import ConfigError, OttlaError
from ottla.wire.api import alter_configs as replacing
from ottla.wire.api import incremental_alter_configs as changing
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribedConfig,
)

log = logging.getLogger(__name__)

V = TypeVar("V")
Entries = dict[str, ConfigEntry]
Changes = Mapping[str, ConfigValue | None]
Outcomes = dict[ConfigResource, Entries | OttlaError]
Done = dict[ConfigResource, OttlaError | None]

_SOURCES_SINCE = 1  # of DescribeConfigs
_SET, _DELETE = 0, 1
_OWN_SOURCES = {ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG}
_SET_BY_KIND = {
    ConfigKind.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigKind.BROKER: ConfigSource.STATIC_BROKER_CONFIG,
}


class ConfigCalls:
    """Every call returns an outcome for every resource."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def describe(self, resources: Iterable[ConfigResource]) -> Outcomes:
        """All settings, with their defaults. Through ZooKeeper only what is set."""
        kept, asked = self._by_way(resources, DescribeConfigsRequest)
        found: Outcomes = each(kept, self._in_zookeeper)
        return found | self._access.settle(asked, self._asked_to_describe, is_repeatable=True)

    def _in_zookeeper(self, resource: ConfigResource) -> Entries:
        found = self._keeper(resource, DescribeConfigsRequest).configs(
            resource.kind.entity_type, resource.name
        )
        source = _SET_BY_KIND.get(resource.kind, ConfigSource.UNKNOWN)
        return {name: ConfigEntry(name, value, source) for name, value in sorted(found.items())}

    def _asked_to_describe(self, resources: list[ConfigResource]) -> Outcomes:
        return self._by_broker(resources, _described)

    def alter(self, resources: Iterable[ConfigResource], changes: Changes, *, validate_only: bool) -> Done:
        """Set some, and return those that are None to their defaults."""
        if not changes:
            raise ConfigError("no changes are given: write {'retention.ms': 1000, 'flush.ms': None}")
        texts = {name: None if value is None else config_text(value) for name, value in changes.items()}
        kept, asked = self._by_way(resources, replacing.AlterConfigsRequest)
        outcomes: Done = each(
            kept,
            lambda one: self._keeper(one, replacing.AlterConfigsRequest).alter_configs(
                one.kind.entity_type, one.name, texts, validate_only=validate_only
            ),
        )
        outcomes |= self._access.settle(
            asked,
            lambda some: self._asked_to_alter(some, texts, validate_only=validate_only),
            is_repeatable=True,
        )
        for resource, outcome in outcomes.items():
            if outcome is None and not validate_only:
                log.info("settings of %s changed: %s", resource, ", ".join(sorted(changes)))
        return outcomes

    def _asked_to_alter(
        self, resources: list[ConfigResource], changes: Mapping[str, str | None], *, validate_only: bool
    ) -> Done:
        is_incremental = self._access.has(changing.IncrementalAlterConfigsRequest.API)
        present = {} if is_incremental else self._asked_to_describe(resources)
        outcomes: Done = {one: told for one, told in present.items() if isinstance(told, OttlaError)}
        entries = {one: told for one, told in present.items() if not isinstance(told, OttlaError)}

        def ask(connection: Connection, asked: list[ConfigResource]) -> Done:
            rows: list[changing.AlteredResource] | list[replacing.AlteredResource]
            if is_incremental:
                change = _incremental_request(asked, changes)
                change.validate_only = validate_only
                rows = connection.call(change).responses
            else:
                whole = _replacing_request({one: entries[one] for one in asked}, changes)
                whole.validate_only = validate_only
                rows = connection.call(whole).responses
            return dict(_altered(row) for row in rows)

        return outcomes | self._by_broker([one for one in resources if one not in outcomes], ask)

    # --- whom to ask

    def _by_way(
        self,
        resources: Iterable[ConfigResource],
        call: type[DescribeConfigsRequest | replacing.AlterConfigsRequest],
    ) -> tuple[list[ConfigResource], list[ConfigResource]]:
        """Those that ZooKeeper has, and those that brokers have."""
        has_call = self._access.has(call.API)
        listed = list(resources)
        kept = [one for one in listed if not has_call or one.kind is ConfigKind.CLIENT]
        return kept, [one for one in listed if one not in kept]

    def _keeper(
        self, resource: ConfigResource, call: type[DescribeConfigsRequest | replacing.AlterConfigsRequest]
    ) -> ZooKeeperTopics:
        wish = f"settings of {resource}"
        if not self._access.has(call.API):
            return ZooKeeperTopics(self._access.zookeeper(wish, self._access.lack(call.API)))
        return ZooKeeperTopics(
            self._access.zookeeper(
                wish,
                "the quotas of clients are in ZooKeeper (in KRaft mode elsewhere, out of reach here)",
            )
        )

    def _by_broker(
        self,
        resources: Iterable[ConfigResource],
        ask: Callable[[Connection, list[ConfigResource]], dict[ConfigResource, V | OttlaError]],
    ) -> dict[ConfigResource, V | OttlaError]:
        """A broker tells of its own settings only; of anything else any broker does."""
        by_broker: dict[int | None, list[ConfigResource]] = defaultdict(list)
        for one in resources:
            by_broker[_broker_id(one)].append(one)
        outcomes: dict[ConfigResource, V | OttlaError] = {}
        pool = self._access.pool
        for number, asked in by_broker.items():
            try:
                outcomes |= ask(pool.to_any() if number is None else pool.to(number), asked)
            except OttlaError as error:
                outcomes |= dict.fromkeys(asked, error)
        return outcomes


def _broker_id(resource: ConfigResource) -> int | None:
    if resource.kind is not ConfigKind.BROKER or not resource.name:
        return None
    if not (resource.name.isascii() and resource.name.isdigit()):
        raise ConfigError(f"{resource} is no broker: a broker is named by its number")
    return int(resource.name)


def _described(connection: Connection, resources: list[ConfigResource]) -> Outcomes:
    version = connection.version_for(DescribeConfigsRequest.API)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=int(one.kind), resource_name=one.name, configuration_keys=None
            )
            for one in resources
        ]
    )
    if version >= _SOURCES_SINCE:
        request.include_synonyms = True
    outcomes: Outcomes = {}
    for told in connection.call(request, version=version).results:
        resource = ConfigResource(ConfigKind(told.resource_type), told.resource_name)
        outcomes[resource] = (
            told_error(told.error_code, told.error_message, str(resource))
            if told.error_code
            else {one.name: _entry(one, resource.kind, version) for one in told.configs}
        )
    return outcomes


def _altered(
    told: changing.AlteredResource | replacing.AlteredResource,
) -> tuple[ConfigResource, OttlaError | None]:
    resource = ConfigResource(ConfigKind(told.resource_type), told.resource_name)
    code = told.error_code
    return resource, told_error(code, told.error_message, str(resource)) if code else None


def _entry(told: DescribedConfig, kind: ConfigKind, version: int) -> ConfigEntry:
    if version >= _SOURCES_SINCE:
        source = ConfigSource.of(told.config_source)
    else:
        source = ConfigSource.DEFAULT_CONFIG if told.is_default else _SET_BY_KIND[kind]
    return ConfigEntry(
        name=told.name,
        value=told.value,
        source=source,
        is_read_only=told.read_only,
        is_sensitive=told.is_sensitive,
        synonyms=tuple(
            ConfigSynonym(one.name, one.value, ConfigSource.of(one.source)) for one in told.synonyms
        ),
    )


def _incremental_request(
    resources: Iterable[ConfigResource], changes: Mapping[str, str | None]
) -> changing.IncrementalAlterConfigsRequest:
    rows = [
        changing.AlterConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in changes.items()
    ]
    return changing.IncrementalAlterConfigsRequest(
        resources=[
            changing.AlterResource(resource_type=int(one.kind), resource_name=one.name, configs=rows)
            for one in resources
        ]
    )


def _replacing_request(
    present: Mapping[ConfigResource, Entries], changes: Mapping[str, str | None]
) -> replacing.AlterConfigsRequest:
    return replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterResource(
                resource_type=int(one.kind),
                resource_name=one.name,
                configs=[
                    replacing.AlterConfig(name=name, value=value)
                    for name, value in replaced_configs(str(one), entries, changes).items()
                ],
            )
            for one, entries in present.items()
        ]
    )


def replaced_configs(what: str, present: Entries, changes: Mapping[str, str | None]) -> dict[str, str]:
    """All that is to be set after the changes, for a call that unsets what it does not name."""
    own = {name: one for name, one in present.items() if one.source in _OWN_SOURCES}
    for name, one in own.items():
        if one.value is None and name not in changes:
            raise Unsupported(
                f"{what}: {name} is a secret, and brokers before 2.3 replace all settings at once; "
                "give its value with the other changes"
            )
    merged = {name: one.value for name, one in own.items()} | dict(changes)
    return {name: value for name, value in merged.items() if value is not None}
