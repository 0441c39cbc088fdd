"""The table of what the broker serves, beside the handlers and the codecs; who is loaded when."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import ottla.broker.handlers
from ottla.broker.handlers.registry import SERVED, handler, served_versions
from ottla.broker.serving.handler import Handler
from ottla.wire.registry import MODULES, apis


def test_every_module_handles_an_api_that_is_served() -> None:
    files = {info.name for info in pkgutil.iter_modules(ottla.broker.handlers.__path__)} - {"registry"}
    assert sorted(MODULES[key] for key in SERVED) == sorted(files)
    assert all(isinstance(handler(key), Handler) for key in SERVED)


def test_every_version_that_is_served_has_a_codec() -> None:
    for served in (SERVED, served_versions(zookeeper=False)):
        for key, versions in served.items():
            assert 0 <= versions.oldest <= versions.newest <= apis()[key].version_newest, apis()[key].name


def test_without_zookeeper_offsets_are_served_from_version_1_on() -> None:
    with_it, without = served_versions(zookeeper=True), served_versions(zookeeper=False)
    differ = {MODULES[key]: without[key].oldest for key in SERVED if with_it[key] != without[key]}
    assert differ == {"offset_commit": 1, "offset_fetch": 1}


STARTED = """
import pkgutil, sys
import ottla.broker
from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.registry import handler
with EmbeddedBroker() as broker:
    print(*sorted(name for name in sys.modules if name.startswith("ottla.broker.handlers.")))
    handler(12)
    print("ottla.broker.handlers.heartbeat" in sys.modules)
    broker._call(lambda: list(broker._running().load_rest()))
    every = {module.name for module in pkgutil.walk_packages(ottla.broker.__path__, "ottla.broker.")}
    print(*sorted(every - sys.modules.keys()))
"""
OF_SETTINGS = (
    "ottla.broker.metrics",
    "ottla.broker.registration.",
    "ottla.broker.storage.data_check",
    "ottla.broker.transactions.transaction_metrics",
)
"""Modules that a start imports if a setting asks for them, and one of `ottla log`."""


def test_a_start_loads_no_handler_and_all_are_loaded_later() -> None:
    run = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    started, other, left = run.stdout.splitlines()
    assert (started, other) == ("ottla.broker.handlers.registry", "True")
    assert [name for name in left.split() if not name.startswith(OF_SETTINGS)] == []
