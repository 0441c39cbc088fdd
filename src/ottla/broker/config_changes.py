"""AlterConfigs and IncrementalAlterConfigs, decided: what a resource's overrides become, or why they do not.

Nothing is changed here. An `Outcome` with `overrides` is to be stored and applied by the caller, who then
answers with `incremental_response` or `replacement_response`; of a request that only validates, no outcome
has overrides. Of several changes to one resource either all are made or none.

Codes are Kafka's: a topic's bad setting is INVALID_CONFIG, a broker's INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

from ottla.broker.config import BrokerConfig, DynamicOverrides, with_dynamic
from ottla.broker.config_view import ConfigView, ResourceType
from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.broker.settings.ignored_names import is_ignored
from ottla.broker.settings.setting import SettingType, Table, UpdateMode, did_you_mean, text_of
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.broker.topic_settings import ConfigRefused, topic_config
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.wire.api import alter_configs, incremental_alter_configs
from ottla.wire.api.create_topics import CreateTopicConfig

Operations = Sequence[incremental_alter_configs.AlterConfig]
Entries = Sequence[alter_configs.AlterConfig] | Sequence[CreateTopicConfig]
Resource = TypeVar("Resource", incremental_alter_configs.AlterResource, alter_configs.AlterResource)
Answer = TypeVar("Answer", incremental_alter_configs.AlteredResource, alter_configs.AlteredResource)


class Operation(IntEnum):
    """The codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one resource: its new overrides, or a code and what the client reads."""

    resource_type: int
    resource_name: str
    overrides: Mapping[str, str] | None = None
    error_code: int = Code.NONE
    error_message: str | None = None


def altered(current: Mapping[str, str], operations: Operations, settings: Table) -> dict[str, str]:
    """Overrides after single changes; names and values are not checked yet. Raises ConfigRefused."""
    _check_entries(operations, {one.name for one in operations if one.config_operation == Operation.DELETE})
    after = dict(current)
    for one in operations:
        name, value = one.name, one.value or ""
        if one.config_operation == Operation.SET:
            after[name] = value
        elif one.config_operation == Operation.DELETE:
            after.pop(name, None)
        elif one.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            items = _items(name, after, settings)
            named = _split(value)
            if one.config_operation == Operation.APPEND:
                items += [item for item in named if item not in items]
            else:
                items = [item for item in items if item not in named]
            after[name] = ",".join(items)
        else:
            raise ConfigRefused(
                Code.INVALID_REQUEST,
                f"{name}: operation {one.config_operation} is none of set, delete, append, subtract (0 to 3)",
            )
    return after


def replaced(entries: Entries) -> dict[str, str]:
    """Overrides that consist of what is named. Raises ConfigRefused."""
    _check_entries(entries, set())
    return {one.name: one.value or "" for one in entries}


def checked_overrides(config: BrokerConfig, entries: Entries) -> dict[str, str]:
    """The overrides of a new topic; raises ConfigRefused."""
    overrides = replaced(entries)
    topic_config(config, overrides)
    return overrides


def check_dynamic(config: BrokerConfig, dynamic: DynamicOverrides, names: Iterable[str]) -> None:
    """Raise ConfigRefused if a running broker cannot take the names, or the values that come of them."""
    for name in names:
        row = BROKER_SETTINGS.get(name)
        if row is None and is_ignored(name):
            raise ConfigRefused(
                Code.INVALID_CONFIG, f"{name} has no meaning in this broker; leave it as it is"
            )
        if row is None:
            near = did_you_mean(name, BROKER_SETTINGS)
            raise ConfigRefused(Code.INVALID_CONFIG, f"{name} is not a setting of a broker{near}")
        if row.update is UpdateMode.READ_ONLY:
            raise ConfigRefused(
                Code.INVALID_REQUEST,
                f"{name} cannot change while the broker runs; set it and start the broker anew",
            )
    try:
        with_dynamic(config, dynamic)
    except ConfigError as error:
        raise ConfigRefused(Code.INVALID_REQUEST, str(error)) from error


def incremental_outcomes(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, view: ConfigView
) -> list[Outcome]:
    """What becomes of each resource of an IncrementalAlterConfigs."""

    def change(
        resource: incremental_alter_configs.AlterResource, current: Mapping[str, str]
    ) -> dict[str, str]:
        table = TOPIC_SETTINGS if resource.resource_type == ResourceType.TOPIC else BROKER_SETTINGS
        return altered(current, resource.configs, table)

    return _outcomes(request.resources, change, view, validate_only=request.validate_only)


def replacement_outcomes(request: alter_configs.AlterConfigsRequest, view: ConfigView) -> list[Outcome]:
    """What becomes of each resource of an AlterConfigs, which replaces all overrides."""

    def change(resource: alter_configs.AlterResource, _: Mapping[str, str]) -> dict[str, str]:
        return replaced(resource.configs)

    return _outcomes(request.resources, change, view, validate_only=request.validate_only)


def incremental_response(
    outcomes: Iterable[Outcome],
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """The answer that tells outcomes."""
    answers = [_answer(one, incremental_alter_configs.AlteredResource) for one in outcomes]
    return incremental_alter_configs.IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=answers)


def replacement_response(outcomes: Iterable[Outcome]) -> alter_configs.AlterConfigsResponse:
    """The answer that tells outcomes."""
    answers = [_answer(one, alter_configs.AlteredResource) for one in outcomes]
    return alter_configs.AlterConfigsResponse(throttle_time_ms=0, responses=answers)


def _answer(outcome: Outcome, kind: type[Answer]) -> Answer:
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
) -> list[Outcome]:
    counts = Counter((one.resource_type, one.resource_name) for one in resources)
    outcomes = []
    for resource in resources:
        outcome = Outcome(resource.resource_type, resource.resource_name)
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
    if resource.resource_type == ResourceType.TOPIC:
        overrides = change(resource, view.existing(name))
        topic_config(view.effective, overrides)
        return overrides
    if resource.resource_type != ResourceType.BROKER:
        raise ConfigRefused(
            Code.INVALID_REQUEST,
            f"resource type {resource.resource_type}: only topics (2) and brokers (4) have settings here",
        )
    if view.names_this_broker(name):
        overrides = change(resource, view.dynamic.broker)
        dynamic = replace(view.dynamic, broker=overrides)
    else:
        overrides = change(resource, view.dynamic.default)
        dynamic = replace(view.dynamic, default=overrides)
    check_dynamic(view.config, dynamic, overrides)
    return overrides


def _check_entries(entries: Operations | Entries, without_value: set[str]) -> None:
    twice = [name for name, count in Counter(one.name for one in entries).items() if count > 1]
    if twice:
        raise ConfigRefused(Code.INVALID_REQUEST, f"{', '.join(twice)}: named more than once")
    unset = [one.name for one in entries if one.value is None and one.name not in without_value]
    if unset:
        raise ConfigRefused(Code.INVALID_REQUEST, f"{', '.join(unset)}: the value is missing (null)")


def _items(name: str, overrides: Mapping[str, str], settings: Table) -> list[str]:
    """The list that is appended to or subtracted from; without an override it is the default, as in Kafka."""
    row = settings.get(name)
    if row is None or row.type is not SettingType.LIST:
        raise ConfigRefused(Code.INVALID_CONFIG, f"{name} is not a list: it can be set, not appended to")
    return _split(overrides.get(name, text_of(row.default) or ""))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
