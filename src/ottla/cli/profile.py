"""Profiles: named sets of client settings in a TOML file, so that command lines need not repeat them.

    [profiles.local]
    bootstrap.servers = "127.0.0.1:9092"

    [profiles.old]
    zookeeper.connect = "127.0.0.1:2181"
    broker.version = "0.9"

The file is `OTTLA_CONFIG`, else `ottla/config.toml` in the user's configuration directory. `OTTLA_PROFILE`
names the profile; commands for people take --profile too, and the profile "default" where there is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.model.errors import ConfigError

FILE, NAME = "OTTLA_CONFIG", "OTTLA_PROFILE"
DEFAULT = "default"


def profile_path() -> Path:
    """The path of the profiles' file."""
    if given := os.environ.get(FILE):
        return Path(given)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ottla" / "config.toml"


def chosen_profile(name: str | None = None, *, default: str = "") -> dict[str, str]:
    """The settings of the named profile, of OTTLA_PROFILE, or else of `default` if it exists."""
    wanted = name or os.environ.get(NAME) or ""
    profiles = _profiles(profile_path())
    if not wanted:
        return profiles.get(default, {})
    if wanted not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise ConfigError(f"there is no profile {wanted!r} in {profile_path()}; there is {known}")
    return profiles[wanted]


def _profiles(path: Path) -> dict[str, dict[str, str]]:
    import tomllib  # here: a start does not need it

    try:
        read = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    profiles = read.get("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(profile, dict) for profile in profiles.values()):
        raise ConfigError(f"{path}: profiles are tables, as in [profiles.local]")
    return {name: dict(_flat(profile)) for name, profile in profiles.items()}


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten tables to dotted names: TOML reads a.b as a table."""
    settings: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            settings += _flat(value, f"{prefix}{name}.")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            settings.append((f"{prefix}{name}", text))
    return settings
