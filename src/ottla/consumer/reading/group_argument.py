"""The arguments of a group's consumers that name the group and its settings."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.model.errors import ConfigError
from ottla.model.property_table import merged


def group_settings(
    properties: Mapping[str, object] | None, group_id: str | None, settings: Mapping[str, object]
) -> dict[str, object]:
    """Return the settings of a consumer, with its group. Raises ConfigError.

    The group is never positional: a topic and a group in the wrong order would create a topic.
    """
    if isinstance(properties, str):
        raise ConfigError(f"{properties!r:.100}: the group is a keyword, as in group_id='billing'")
    named = {} if group_id is None else {"group_id": group_id}
    return merged(properties, {**settings, **named})
