"""Reads, changes and lists settings of topics, brokers, their loggers, groups, client metrics and clients.

There are three generations: IncrementalAlterConfigs (2.3); AlterConfigs (0.11), which replaces all
settings, so the present ones are read first; and ZooKeeper's /config with a note in /config/changes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import each, only, response_error
from ottla.admin.config_values import (
    ConfigEntry,
    ConfigEntrySynonym,
    ConfigKind,
    ConfigResource,
    ConfigSource,
)
from ottla.admin.topic_values import ConfigValue, config_text
from ottla.admin.zookeeper_topics import ZooKeeperTopics
from ottla.client.conversation import Peer
from ottla.model.errors import ConfigError, KafkaError, OttlaError, Unsupported
from ottla.wire.api import alter_configs as replacing
from ottla.wire.api import incremental_alter_configs as changing
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribedConfig,
)
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest

log = logging.getLogger(__name__)

_LISTING = "listing what has settings"

V = TypeVar("V")
Entries = dict[str, ConfigEntry]
Changes = Mapping[str, ConfigValue | None]
Outcomes = dict[ConfigResource, Entries | OttlaError]
Done = dict[ConfigResource, OttlaError | None]

_SOURCES_SINCE = 1  # of DescribeConfigs
_KINDS_SINCE = 1  # of ListConfigResources; before, it lists client metrics only
_SET, _DELETE = 0, 1
_OWN_SOURCES = {ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG}
_BROKER_KINDS = {ConfigKind.BROKER, ConfigKind.BROKER_LOGGER}
_KEPT_IN_ZOOKEEPER = {ConfigKind.TOPIC, ConfigKind.BROKER, ConfigKind.CLIENT}
_SET_BY_KIND = {
    ConfigKind.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigKind.BROKER: ConfigSource.STATIC_BROKER_CONFIG,
}


class ConfigCalls:
    """Each call returns an outcome for every resource."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    async def describe(self, resources: Iterable[ConfigResource]) -> Outcomes:
        """Return all settings with their defaults. Through ZooKeeper only those that are set."""
        in_zookeeper, in_kafka = await self._by_location(resources, DescribeConfigsRequest)
        outcomes: Outcomes = await each(in_zookeeper, self._describe_in_zookeeper)
        return outcomes | await self._access.settle(in_kafka, self._describe_once, is_repeatable=True)

    async def _describe_in_zookeeper(self, resource: ConfigResource) -> Entries:
        zookeeper = await self._zookeeper(resource, DescribeConfigsRequest)
        configs = await self._access.blocking(
            lambda: zookeeper.configs(resource.kind.entity_type, resource.name)
        )
        source = _SET_BY_KIND.get(resource.kind, ConfigSource.UNKNOWN)
        return {name: ConfigEntry(name, value, source) for name, value in sorted(configs.items())}

    async def _describe_once(self, resources: list[ConfigResource]) -> Outcomes:
        return await self._by_broker(resources, _described)

    async def alter(
        self, resources: Iterable[ConfigResource], changes: Changes, *, validate_only: bool
    ) -> Done:
        """Set settings; those with None return to their defaults."""
        if not changes:
            raise ConfigError("no changes are given: write {'retention.ms': 1000, 'flush.ms': None}")
        texts = {name: None if value is None else config_text(value) for name, value in changes.items()}
        in_zookeeper, in_kafka = await self._by_location(resources, replacing.AlterConfigsRequest)

        async def alter_in_zookeeper(resource: ConfigResource) -> None:
            zookeeper = await self._zookeeper(resource, replacing.AlterConfigsRequest)
            kind, name = resource.kind.entity_type, resource.name
            await self._access.blocking(
                lambda: zookeeper.alter_configs(kind, name, texts, validate_only=validate_only)
            )

        outcomes: Done = await each(in_zookeeper, alter_in_zookeeper)
        outcomes |= await self._access.settle(
            in_kafka,
            lambda resources: self._alter_once(resources, texts, validate_only=validate_only),
            is_repeatable=True,
        )
        for resource, outcome in outcomes.items():
            if outcome is None and not validate_only:
                log.info("settings of %s changed: %s", resource, ", ".join(sorted(changes)))
        return outcomes

    async def _alter_once(
        self, resources: list[ConfigResource], changes: Mapping[str, str | None], *, validate_only: bool
    ) -> Done:
        is_incremental = await self._access.has(changing.IncrementalAlterConfigsRequest.API)
        present = {} if is_incremental else await self._describe_once(resources)
        outcomes: Done = {
            resource: error for resource, error in present.items() if isinstance(error, OttlaError)
        }
        entries = {name: configs for name, configs in present.items() if not isinstance(configs, OttlaError)}

        async def ask(connection: Peer, some: list[ConfigResource]) -> Done:
            rows: list[changing.IncrementalAlteredResource] | list[replacing.AlteredResource]
            if is_incremental:
                change = _incremental_request(some, changes)
                change.validate_only = validate_only
                rows = (await connection.call(change)).responses
            else:
                whole = _replacing_request({resource: entries[resource] for resource in some}, changes)
                whole.validate_only = validate_only
                rows = (await connection.call(whole)).responses
            return dict(_altered(row) for row in rows)

        return outcomes | await self._by_broker(
            [resource for resource in resources if resource not in outcomes], ask
        )

    async def resources(self, kinds: Iterable[ConfigKind]) -> tuple[ConfigResource, ...]:
        """Return the resources of these kinds, sorted; without any, of all kinds that brokers list.

        Brokers before 4.1 list client metrics only, or nothing: topics and brokers are then looked up.
        """
        version = await self._access.version(ListConfigResourcesRequest.API)
        known = {ConfigKind.TOPIC, ConfigKind.BROKER, ConfigKind.BROKER_LOGGER}
        if version is not None:
            known.add(ConfigKind.CLIENT_METRICS)
        if version is not None and version >= _KINDS_SINCE:
            known.add(ConfigKind.GROUP)
        wanted = set(kinds) or known
        if wanted - known:
            names = ", ".join(sorted(kind.entity_type for kind in wanted - known))
            raise Unsupported(
                f"{names} cannot be listed here: brokers list client metrics since Kafka 3.7 and groups with "
                "settings since 4.1; clients with quotas are what describe_client_quotas lists"
            )
        by_call = wanted if ConfigKind.GROUP in known else wanted & {ConfigKind.CLIENT_METRICS}
        listed = await self._listed(by_call) if by_call else []
        return tuple(sorted([*listed, *await self._looked_up(wanted - by_call)]))

    async def _listed(self, kinds: set[ConfigKind]) -> list[ConfigResource]:
        """Return what ListConfigResources answers, which in version 0 is of one kind, whatever is asked."""

        async def attempt(_: list[str]) -> dict[str, list[ConfigResource] | OttlaError]:
            connection = await self._access.any_broker()
            request = ListConfigResourcesRequest()
            if connection.version_for(request.API) >= _KINDS_SINCE:
                request.resource_types = sorted(map(int, kinds))
            answer = await connection.call(request)
            if answer.error_code:
                return {_LISTING: KafkaError(answer.error_code, _LISTING)}
            return {
                _LISTING: [
                    ConfigResource(ConfigKind(row.resource_type), row.resource_name)
                    for row in answer.config_resources
                    if row.resource_type in kinds
                ]
            }

        return only(await self._access.settle([_LISTING], attempt, is_repeatable=True))

    async def _looked_up(self, kinds: Iterable[ConfigKind]) -> list[ConfigResource]:
        found: list[ConfigResource] = []
        for kind in kinds:
            view = await self._access.view(None if kind is ConfigKind.TOPIC else (), _LISTING)
            names = view.topics if kind is ConfigKind.TOPIC else map(str, view.brokers)
            found += [ConfigResource(kind, name) for name in names]
        return found

    # --- whom to ask

    async def _by_location(
        self,
        resources: Iterable[ConfigResource],
        call: type[DescribeConfigsRequest | replacing.AlterConfigsRequest],
    ) -> tuple[list[ConfigResource], list[ConfigResource]]:
        """Return the resources whose settings are in ZooKeeper, and those whose settings are at brokers."""
        has_call = await self._access.has(call.API)
        listed = list(resources)
        in_zookeeper = [resource for resource in listed if not has_call or resource.kind is ConfigKind.CLIENT]
        for resource in in_zookeeper:
            if resource.kind not in _KEPT_IN_ZOOKEEPER:
                raise Unsupported(f"settings of {resource}: {await self._access.no_such_call(call.API)}")
        return in_zookeeper, [resource for resource in listed if resource not in in_zookeeper]

    async def _zookeeper(
        self, resource: ConfigResource, call: type[DescribeConfigsRequest | replacing.AlterConfigsRequest]
    ) -> ZooKeeperTopics:
        purpose = f"settings of {resource}"
        reason = "the quotas of clients are in ZooKeeper (in KRaft mode elsewhere, out of reach here)"
        if not await self._access.has(call.API):
            reason = await self._access.no_such_call(call.API)
        return ZooKeeperTopics(await self._access.zookeeper(purpose, reason))

    async def _by_broker(
        self,
        resources: Iterable[ConfigResource],
        ask: Callable[[Peer, list[ConfigResource]], Awaitable[dict[ConfigResource, V | OttlaError]]],
    ) -> dict[ConfigResource, V | OttlaError]:
        """Ask each broker for its own settings, and any broker for all other resources."""
        by_broker: dict[int | None, list[ConfigResource]] = defaultdict(list)
        for resource in resources:
            by_broker[_broker_id(resource)].append(resource)
        outcomes: dict[ConfigResource, V | OttlaError] = {}
        for broker_id, some in by_broker.items():
            try:
                peer = self._access.any_broker() if broker_id is None else self._access.broker(broker_id)
                outcomes |= await ask(await peer, some)
            except OttlaError as error:
                outcomes |= dict.fromkeys(some, error)
        return outcomes


def _broker_id(resource: ConfigResource) -> int | None:
    if resource.kind not in _BROKER_KINDS or not resource.name:
        return None
    if not (resource.name.isascii() and resource.name.isdigit()):
        raise ConfigError(f"{resource} is not a broker: a broker is named by its number")
    return int(resource.name)


async def _described(connection: Peer, resources: list[ConfigResource]) -> Outcomes:
    version = connection.version_for(DescribeConfigsRequest.API)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=int(resource.kind), resource_name=resource.name, configuration_keys=None
            )
            for resource in resources
        ]
    )
    if version >= _SOURCES_SINCE:
        request.include_synonyms = True
    outcomes: Outcomes = {}
    for response in (await connection.call(request, version=version)).results:
        resource = ConfigResource(ConfigKind(response.resource_type), response.resource_name)
        outcomes[resource] = (
            response_error(response.error_code, response.error_message, str(resource))
            if response.error_code
            else {config.name: _entry(config, resource.kind, version) for config in response.configs}
        )
    return outcomes


def _altered(
    response: changing.IncrementalAlteredResource | replacing.AlteredResource,
) -> tuple[ConfigResource, OttlaError | None]:
    resource = ConfigResource(ConfigKind(response.resource_type), response.resource_name)
    code = response.error_code
    return resource, response_error(code, response.error_message, str(resource)) if code else None


def _entry(response: DescribedConfig, kind: ConfigKind, version: int) -> ConfigEntry:
    if version >= _SOURCES_SINCE:
        source = ConfigSource.of(response.config_source)
    else:
        source = ConfigSource.DEFAULT_CONFIG if response.is_default else _SET_BY_KIND[kind]
    return ConfigEntry(
        name=response.name,
        value=response.value,
        source=source,
        is_read_only=response.read_only,
        is_sensitive=response.is_sensitive,
        synonyms=tuple(
            ConfigEntrySynonym(synonym.name, synonym.value, ConfigSource.of(synonym.source))
            for synonym in response.synonyms
        ),
    )


def _incremental_request(
    resources: Iterable[ConfigResource], changes: Mapping[str, str | None]
) -> changing.IncrementalAlterConfigsRequest:
    rows = [
        changing.IncrementalAlterConfig(
            name=name, config_operation=_DELETE if value is None else _SET, value=value
        )
        for name, value in changes.items()
    ]
    return changing.IncrementalAlterConfigsRequest(
        resources=[
            changing.IncrementalAlterResource(
                resource_type=int(resource.kind), resource_name=resource.name, configs=rows
            )
            for resource in resources
        ]
    )


def _replacing_request(
    present: Mapping[ConfigResource, Entries], changes: Mapping[str, str | None]
) -> replacing.AlterConfigsRequest:
    return replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterResource(
                resource_type=int(resource.kind),
                resource_name=resource.name,
                configs=[
                    replacing.AlterConfig(name=name, value=value)
                    for name, value in replaced_configs(str(resource), entries, changes).items()
                ],
            )
            for resource, entries in present.items()
        ]
    )


def replaced_configs(resource: str, present: Entries, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return all settings after the changes, for a call that removes what it does not name."""
    own = {name: entry for name, entry in present.items() if entry.source in _OWN_SOURCES}
    for name, entry in own.items():
        if entry.value is None and name not in changes:
            raise Unsupported(
                f"{resource}: {name} is a secret, and brokers before 2.3 replace all settings at once; "
                "give its value with the other changes"
            )
    merged = {name: entry.value for name, entry in own.items()} | dict(changes)
    return {name: value for name, value in merged.items() if value is not None}
