"""The settings of a running broker: what the config APIs look at, and carrying out what they decided.

The brokers of one process share their settings. What is set for all of them, or for the first, is in force;
setting another broker's is refused, since it would have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides, with_dynamic
from ottla.broker.settings.config_view import ConfigResourceType, ConfigView
from ottla.broker.settings.loggers import apply_levels
from ottla.broker.settings.topic_settings import ConfigRefused, topic_config
from ottla.broker.storage.topic_changes import TopicChanges
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError

if TYPE_CHECKING:
    from ottla.broker.settings.config_changes import ConfigChangeOutcome

ALL_BROKERS = ""
ENTITIES_MAX = 10_000
"""Groups with settings of their own, quotas, and so on: each stays until it is removed."""


class SettingChanges:
    """Owned by the broker's loop."""

    def __init__(self, store: TopicStore, topics: TopicChanges) -> None:
        self._store = store
        self._topics = topics

    def view(self, broker_id: int) -> ConfigView:
        """Return the settings as one of the brokers describes them."""
        topics = self._store.catalog.topics
        return ConfigView(
            _as_started(self._store.started_with, broker_id),
            self._store.dynamic,
            lambda name: topics[name].overrides if name in topics else None,
            lambda kind, name: self._store.catalog.entity(kind.name, name),
        )

    def carry_out(self, outcomes: Iterable[ConfigChangeOutcome]) -> list[ConfigChangeOutcome]:
        """Store and apply what was decided. An outcome that could not be carried out gets an error."""
        return [self._carry_out(outcome) for outcome in outcomes]

    def _carry_out(self, outcome: ConfigChangeOutcome) -> ConfigChangeOutcome:
        if outcome.error_code:
            return outcome
        try:
            if outcome.resource_type == ConfigResourceType.BROKER:
                self._check_broker(outcome.resource_name)
            if outcome.overrides is None:  # the request only validates
                return outcome
            if outcome.resource_type == ConfigResourceType.BROKER:
                self.configure_brokers(outcome.resource_name, outcome.overrides)
            elif outcome.resource_type == ConfigResourceType.BROKER_LOGGER:
                apply_levels(outcome.overrides)
            elif outcome.resource_type in (ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS):
                kind = ConfigResourceType(outcome.resource_type).name
                self.set_entities(kind, {outcome.resource_name: outcome.overrides})
            else:
                self._topics.configure(outcome.resource_name, outcome.overrides)
        except ConfigRefused as error:
            return replace(outcome, overrides=None, error_code=error.code, error_message=error.reason)
        except KafkaError as error:
            return replace(outcome, overrides=None, error_code=error.code, error_message=str(error))
        return outcome

    def set_entities(self, kind: str, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the stored values of groups, quotas and similar entities. Raises KafkaError."""
        catalog = self._store.catalog
        new = [name for name, fields in changes.items() if fields and not catalog.entity(kind, name)]
        if len(catalog.entities.get(kind, ())) + len(new) > ENTITIES_MAX:
            reason = f"{kind}: there are {ENTITIES_MAX} already; remove some"
            raise KafkaError(Code.POLICY_VIOLATION, reason)
        try:
            catalog.set_entities(kind, changes)
        except StorageError as error:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error

    def _check_broker(self, broker_id: str) -> None:
        first = str(self._store.started_with.broker_id)
        if broker_id not in (ALL_BROKERS, first):
            reason = (
                f"broker {broker_id} shares the settings of broker {first}; set that one's, or those of all"
            )
            raise ConfigRefused(Code.INVALID_REQUEST, reason)

    def configure_brokers(self, broker_id: str, overrides: Mapping[str, str]) -> None:
        """Replace the settings of the first broker, or of all, effective at once. Raises KafkaError."""
        dynamic = self._store.dynamic
        if broker_id == ALL_BROKERS:
            self._check_topics(replace(dynamic, default=overrides))
        else:
            self._check_topics(replace(dynamic, broker=overrides))
        try:
            self._store.catalog.set_broker_overrides(broker_id, overrides)
        except StorageError as error:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        self._store.apply_broker_overrides()

    def _check_topics(self, dynamic: DynamicOverrides) -> None:
        """Raise ConfigRefused if a broker's new default contradicts what a topic has set."""
        config = with_dynamic(self._store.started_with, dynamic)
        for topic in self._store.catalog.topics.values():
            try:
                topic_config(config, topic.overrides)
            except ConfigRefused as error:
                reason = f"topic {topic.name!r}: {error.reason}"
                raise ConfigRefused(Code.INVALID_REQUEST, reason) from error


def _as_started(config: BrokerConfig, broker_id: int) -> BrokerConfig:
    if broker_id == config.broker_id:
        return config
    properties = {name: text for name, text in config.properties.items() if name != "node.id"}
    return replace(config, broker_id=broker_id, properties={**properties, "broker.id": str(broker_id)})
