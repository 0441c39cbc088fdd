"""Settings for all tests: Hypothesis repeats itself, takes its time, and does less where kernels are slow.

Ctrl-C means what it means at a terminal: a shell lets the jobs that it starts in the background ignore it, so
that every process that a test starts would ignore it too.
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

from ottla.kernels import kernel

settings.register_profile(
    "compiled",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("plain", settings.get_profile("compiled"), max_examples=15)
settings.load_profile("compiled" if kernel.JIT else "plain")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
