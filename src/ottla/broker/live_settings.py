"""The settings of a running broker: what the config APIs look at, and carrying out what they have decided.

The brokers of one process share their settings. What is set for all of them, or for the first, counts;
setting another one's is refused, since it would count for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ottla.broker import topics
from ottla.broker.cluster import Cluster
from ottla.broker.config import BrokerConfig, DynamicOverrides, with_dynamic
from ottla.broker.config_changes import Outcome
from ottla.broker.config_view import ConfigView, ResourceType
from ottla.broker.topic_settings import ConfigRefused, topic_config
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError

ALL_BROKERS = ""


def view(cluster: Cluster, broker_id: int) -> ConfigView:
    """The settings as one of the brokers tells them."""
    known = cluster.catalog.topics
    return ConfigView(
        _as_started(cluster.started_with, broker_id),
        cluster.dynamic,
        lambda name: known[name].overrides if name in known else None,
    )


def _as_started(config: BrokerConfig, broker_id: int) -> BrokerConfig:
    if broker_id == config.broker_id:
        return config
    properties = {name: text for name, text in config.properties.items() if name != "node.id"}
    return replace(config, broker_id=broker_id, properties={**properties, "broker.id": str(broker_id)})


def carry_out(cluster: Cluster, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Store and apply what was decided; what became of it."""
    return [_carried_out(cluster, outcome) for outcome in outcomes]


def _carried_out(cluster: Cluster, outcome: Outcome) -> Outcome:
    if outcome.error_code:
        return outcome
    try:
        if outcome.resource_type == ResourceType.BROKER:
            _check_broker(cluster, outcome.resource_name)
        if outcome.overrides is None:  # it was only to be looked at
            return outcome
        if outcome.resource_type == ResourceType.BROKER:
            configure_brokers(cluster, outcome.resource_name, outcome.overrides)
        else:
            topics.configure(cluster, outcome.resource_name, outcome.overrides)
    except ConfigRefused as error:
        return replace(outcome, overrides=None, error_code=error.code, error_message=error.reason)
    except KafkaError as error:
        return replace(outcome, overrides=None, error_code=error.code, error_message=str(error))
    return outcome


def _check_broker(cluster: Cluster, broker_id: str) -> None:
    first = str(cluster.started_with.broker_id)
    if broker_id not in (ALL_BROKERS, first):
        what = f"broker {broker_id} shares the settings of broker {first}; set that one's, or those of all"
        raise ConfigRefused(Code.INVALID_REQUEST, what)


def configure_brokers(cluster: Cluster, broker_id: str, overrides: Mapping[str, str]) -> None:
    """Give the first broker, or all of them, other settings, effective at once. Raises KafkaError."""
    if broker_id == ALL_BROKERS:
        _check_topics(cluster, replace(cluster.dynamic, default=overrides))
    else:
        _check_topics(cluster, replace(cluster.dynamic, broker=overrides))
    try:
        cluster.catalog.set_broker_overrides(broker_id, overrides)
    except StorageError as error:
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
    cluster.apply_broker_overrides()


def _check_topics(cluster: Cluster, dynamic: DynamicOverrides) -> None:
    """A broker's new default must not contradict what a topic has set for itself."""
    config = with_dynamic(cluster.started_with, dynamic)
    for topic in cluster.catalog.topics.values():
        try:
            topic_config(config, topic.overrides)
        except ConfigRefused as error:
            raise ConfigRefused(Code.INVALID_REQUEST, f"topic {topic.name!r}: {error.reason}") from error
