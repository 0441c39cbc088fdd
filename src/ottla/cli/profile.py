"""Profiles: named sets of client settings in a TOML file, so that a command line need not repeat them.

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
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.model.errors import ConfigError

FILE, NAME = "OTTLA_CONFIG", "OTTLA_PROFILE"
DEFAULT = "default"


def profile_path() -> Path:
    """Where profiles are, if there are any."""
    if given := os.environ.get(FILE):
        return Path(given)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ottla" / "config.toml"


def chosen_profile(name: str | None = None, *, default: str = "") -> dict[str, str]:
    """The settings of the profile named here or in the environment, else of `default` if it is there."""
    wanted = name or os.environ.get(NAME) or ""
    profiles = _profiles(profile_path())
    if not wanted:
        return profiles.get(default, {})
    if wanted not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise ConfigError(f"there is no profile {wanted!r} in {profile_path()}; there is {known}")
    return profiles[wanted]


def _profiles(path: Path) -> dict[str, dict[str, str]]:
    try:
        read = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    profiles = read.get("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise ConfigError(f"{path}: profiles are tables, as in [profiles.local]")
    return {name: dict(_flat(one)) for name, one in profiles.items()}


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Dotted names: TOML takes a.b for a table a with a b in it."""
    found: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}.")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found.append((f"{prefix}{name}", text))
    return found
