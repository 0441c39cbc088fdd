"""Settings for all tests: Hypothesis repeats itself, takes its time, and does less where kernels are slow."""

from __future__ import annotations

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
