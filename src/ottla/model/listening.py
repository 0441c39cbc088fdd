"""What to tell somebody whose server cannot listen."""

from __future__ import annotations

import errno
import os

from ottla.model.errors import ConfigError


def cannot_listen(who: str, host: str, port: int, error: OSError | OverflowError) -> ConfigError:
    """Return the error to raise: who cannot listen where, why, and what to do if the port is taken."""
    number = getattr(error, "errno", None)
    why = os.strerror(number) if number is not None and number > 0 else f"{error}"
    if number == errno.EADDRINUSE:
        why = f"{why}: another program listens there. Stop it, or choose another port"
    return ConfigError(f"{who} cannot listen on {host}:{port}: {why}")
