"""AlterConfigs and IncrementalAlterConfigs, decided: the new overrides of each resource, or an error.

Nothing is changed here. The caller stores and applies the outcomes that have `overrides`, then answers with
`incremental_response` or `replacement_response`. If a request only validates, no outcome has overrides. Of
several changes to one resource either all are made or none.

Codes are Kafka's: a topic's bad setting is INVALID_CONFIG, a broker's INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides, with_dynamic
from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.broker.settings.client_metrics import METRICS_SETTINGS, check_subscription
from ottla.broker.settings.config_view import ConfigResourceType, ConfigView
from ottla.broker.settings.group_table import GROUP_SETTINGS, check_group
from ottla.broker.settings.idle_table import IDLE_SETTINGS
from ottla.broker.settings.ignored_names import is_ignored
from ottla.broker.settings.loggers import check_levels, logger_levels
from ottla.broker.settings.setting import SettingTable, UpdateMode
from ottla.broker.settings.topic_settings import ConfigRefused, topic_config
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.model.property_table import LIST, text_of
from ottla.wire.api import alter_configs, incremental_alter_configs
from ottla.wire.api.create_topics import CreateTopicConfig

Operations = Sequence[incremental_alter_configs.IncrementalAlterConfig]
Entries = Sequence[alter_configs.AlterConfig] | Sequence[CreateTopicConfig]
Resource = TypeVar(
    "Resource", incremental_alter_configs.IncrementalAlterResource, alter_configs.AlterResource
)
Answer = TypeVar(
    "Answer", incremental_alter_configs.IncrementalAlteredResource, alter_configs.AlteredResource
)


_TABLES: Mapping[int, SettingTable] = {
    ConfigResourceType.TOPIC: TOPIC_SETTINGS,
    ConfigResourceType.BROKER: BROKER_SETTINGS,
    ConfigResourceType.GROUP: GROUP_SETTINGS,
    ConfigResourceType.CLIENT_METRICS: METRICS_SETTINGS,
}


class ConfigOperation(IntEnum):
    """The codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChangeOutcome:
    """The result for one resource: its new overrides, or an error code and the text for the client."""

    resource_type: int
    resource_name: str
    overrides: Mapping[str, str] | None = None
    error_code: int = Code.NONE
    error_message: str | None = None


def altered(current: Mapping[str, str], operations: Operations, settings: SettingTable) -> dict[str, str]:
    """Return overrides after single changes, not checked yet. Raises ConfigRefused."""
    _check_entries(
        operations, {item.name for item in operations if item.config_operation == ConfigOperation.DELETE}
    )
    after = dict(current)
    for item in operations:
        name, value = item.name, item.value or ""
        if item.config_operation == ConfigOperation.SET:
            after[name] = value
        elif item.config_operation == ConfigOperation.DELETE:
            after.pop(name, None)
        elif item.config_operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            items = _items(name, after, settings)
            named = _split(value)
            if item.config_operation == ConfigOperation.APPEND:
                items += [item for item in named if item not in items]
            else:
                items = [item for item in items if item not in named]
            after[name] = ",".join(items)
        else:
            raise ConfigRefused(
                Code.INVALID_REQUEST,
                f"{name}: operation {item.config_operation} is not set, delete, append or subtract (0 to 3)",
            )
    return after


def replaced(entries: Entries) -> dict[str, str]:
    """Return the overrides that the entries name. Raises ConfigRefused."""
    _check_entries(entries, set())
    return {item.name: item.value or "" for item in entries}


def check_dynamic(config: BrokerConfig, dynamic: DynamicOverrides, names: Iterable[str]) -> None:
    """Raise ConfigRefused if a running broker cannot change these names, or cannot use the
    resulting values.
    """
    for name in names:
        row = BROKER_SETTINGS.get(name) or IDLE_SETTINGS.get(name)
        if row is None and not is_ignored(name):
            continue  # as Kafka: plugins may have settings that a broker does not know
        if row is None or row.update is UpdateMode.READ_ONLY:
            raise ConfigRefused(
                Code.INVALID_REQUEST,
                f"{name} cannot change while the broker runs; set it and restart the broker",
            )
    try:
        with_dynamic(config, dynamic)
    except ConfigError as error:
        raise ConfigRefused(Code.INVALID_REQUEST, str(error)) from error


def incremental_outcomes(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, view: ConfigView
) -> list[ConfigChangeOutcome]:
    """Return the outcome for each resource of an IncrementalAlterConfigs."""

    def change(
        resource: incremental_alter_configs.IncrementalAlterResource, current: Mapping[str, str]
    ) -> dict[str, str]:
        return altered(current, resource.configs, _TABLES.get(resource.resource_type, {}))

    return _outcomes(request.resources, change, view, validate_only=request.validate_only)


def replacement_outcomes(
    request: alter_configs.AlterConfigsRequest, view: ConfigView
) -> list[ConfigChangeOutcome]:
    """Return the outcome for each resource of an AlterConfigs, which replaces all overrides."""

    def change(resource: alter_configs.AlterResource, _: Mapping[str, str]) -> dict[str, str]:
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            reason = "loggers are changed by IncrementalAlterConfigs, not by AlterConfigs"
            raise ConfigRefused(Code.INVALID_REQUEST, reason)
        return replaced(resource.configs)

    return _outcomes(request.resources, change, view, validate_only=request.validate_only)


def incremental_response(
    outcomes: Iterable[ConfigChangeOutcome],
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """Return the answer with these outcomes."""
    answers = [_answer(item, incremental_alter_configs.IncrementalAlteredResource) for item in outcomes]
    return incremental_alter_configs.IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=answers)


def replacement_response(outcomes: Iterable[ConfigChangeOutcome]) -> alter_configs.AlterConfigsResponse:
    """Return the answer with these outcomes."""
    answers = [_answer(item, alter_configs.AlteredResource) for item in outcomes]
    return alter_configs.AlterConfigsResponse(throttle_time_ms=0, responses=answers)


def _answer(outcome: ConfigChangeOutcome, kind: type[Answer]) -> Answer:
    return kind(
        error_code=outcome.error_code,
        error_message=outcome.error_message,
        resource_type=outcome.resource_type,
        resource_name=outcome.resource_name,
    )


def _outcomes(
    resources: Sequence[Resource],
    change: Callable[[Resource, Mapping[str, str]], dict[str, str]],
    view: ConfigView,
    *,
    validate_only: bool,
) -> list[ConfigChangeOutcome]:
    counts = Counter((item.resource_type, item.resource_name) for item in resources)
    outcomes = []
    for resource in resources:
        outcome = ConfigChangeOutcome(resource.resource_type, resource.resource_name)
        try:
            if counts[outcome.resource_type, outcome.resource_name] > 1:
                raise ConfigRefused(Code.INVALID_REQUEST, "the request names this resource more than once")
            overrides = _decided(resource, change, view)
            outcomes.append(outcome if validate_only else replace(outcome, overrides=overrides))
        except ConfigRefused as error:
            outcomes.append(replace(outcome, error_code=error.code, error_message=error.reason))
    return outcomes


def _decided(
    resource: Resource, change: Callable[[Resource, Mapping[str, str]], dict[str, str]], view: ConfigView
) -> dict[str, str]:
    name = resource.resource_name
    if resource.resource_type == ConfigResourceType.TOPIC:
        overrides = change(resource, view.existing(name))
        topic_config(view.effective, overrides)
        return overrides
    if resource.resource_type == ConfigResourceType.GROUP:
        overrides = change(resource, view.named(ConfigResourceType.GROUP, name))
        check_group(overrides, view.effective)
        return overrides
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        overrides = change(resource, view.named(ConfigResourceType.CLIENT_METRICS, name))
        check_subscription(overrides)
        return overrides
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        return _levels(resource, change, view)
    if resource.resource_type != ConfigResourceType.BROKER:
        raise unknown_type(resource.resource_type)
    return _of_broker(resource, change, view)


def _of_broker(
    resource: Resource, change: Callable[[Resource, Mapping[str, str]], dict[str, str]], view: ConfigView
) -> dict[str, str]:
    name = resource.resource_name
    if view.names_this_broker(name):
        overrides = change(resource, view.dynamic.broker)
        dynamic = replace(view.dynamic, broker=overrides)
    else:
        overrides = change(resource, view.dynamic.default)
        dynamic = replace(view.dynamic, default=overrides)
    check_dynamic(view.config, dynamic, overrides)
    return overrides


def _levels(
    resource: Resource, change: Callable[[Resource, Mapping[str, str]], dict[str, str]], view: ConfigView
) -> dict[str, str]:
    if not view.names_this_broker(resource.resource_name):
        raise ConfigRefused(Code.INVALID_REQUEST, "loggers belong to a broker: name it")
    known = logger_levels()
    levels = change(resource, known)
    check_levels({item.name: levels.get(item.name, "INFO") for item in resource.configs}, known)
    return levels


def unknown_type(number: int) -> ConfigRefused:
    """Return the error for a type of resource that has no settings."""
    known = ", ".join(f"{kind.name} ({kind.value})" for kind in ConfigResourceType)
    return ConfigRefused(Code.INVALID_REQUEST, f"resource type {number}: there are {known}")


def _check_entries(entries: Operations | Entries, without_value: set[str]) -> None:
    twice = [name for name, count in Counter(item.name for item in entries).items() if count > 1]
    if twice:
        raise ConfigRefused(Code.INVALID_REQUEST, f"{', '.join(twice)}: named more than once")
    unset = [item.name for item in entries if item.value is None and item.name not in without_value]
    if unset:
        raise ConfigRefused(Code.INVALID_REQUEST, f"{', '.join(unset)}: the value is missing (null)")


def _items(name: str, overrides: Mapping[str, str], settings: SettingTable) -> list[str]:
    """Return the list to change; without an override it is the default, as in Kafka. Raises ConfigRefused."""
    row = settings.get(name)
    if row is None or row.kind is not LIST:
        raise ConfigRefused(Code.INVALID_CONFIG, f"{name} is not a list: it can be set, not appended to")
    return _split(overrides.get(name, text_of(row.default) or ""))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
