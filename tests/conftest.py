"""Settings for all tests, the servers that they share, and how they are divided among processes.

`make test` runs several processes (pytest-xdist). A file's tests stay together in one process. Tests of one
real Kafka version, of Spark, … form a group, so that one server of each kind serves the whole run.

Ctrl-C means what it means at a terminal: a shell lets the jobs that it starts in the background ignore it, so
that every process that a test starts would ignore it too.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ottla import kernels
from ottla.kernels import kernel
from ottla.kernels.signatures import compile_all
from ottla.kernels.tiers import TIERS
from ottla.zookeeper.server import ZooKeeperServer
from tests.left_behind import no_descriptor_is_left, no_process_is_left
from tests.real_servers import RealKafkas, fast_zookeeper
from tests.scale import REPLAY, SOAK
from tests.scheduling import GroupScheduling, make_groups_file, sort_and_group
from tests.spark import java_options
from tools.peers import RealKafka

__all__ = ["no_descriptor_is_left", "no_process_is_left"]

settings.register_profile(
    "compiled",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("plain", settings.get_profile("compiled"), max_examples=10)
settings.register_profile("soak", settings.get_profile("compiled"), derandomize=False, max_examples=1000)
settings.load_profile("plain" if not kernel.JIT else "soak" if SOAK else "compiled")

KERNELS = os.environ.get("OTTLA_KERNELS", "compiled")
"""What tests run with; programs that they start choose as users' programs do."""
kernels.use(KERNELS)

# Python's development mode reports what an event loop took long for. On a busy machine that is anything.
logging.getLogger("asyncio").addFilter(lambda record: not str(record.msg).startswith("Executing "))

java_options.set_environment()

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels before any test runs, so that the tests' processes only load them."""
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    if config.getoption("tx", None):
        make_groups_file()
    if kernel.CACHE_DIRECTORY is not None:
        compile_all(kernel.CACHE_DIRECTORY)
    if config.getoption("tx", None) and (making := java_options.start_archive()) is not None:
        config.add_cleanup(lambda: java_options.end(making))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Make the tests without garbage collections, and exempt them and all modules from later ones."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def pytest_report_header() -> str:
    return f"sizes: {'soak' if SOAK else 'usual'}; to repeat the run: {REPLAY}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    worker = getattr(config, "workerinput", {})
    sort_and_group(items, is_told=worker.get("workerid") == "gw0")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the skipped tests; -ra gives the reasons and only counts the tests."""
    skipped = Counter(report.nodeid for report in terminalreporter.stats.get("skipped", []))
    if skipped:
        terminalreporter.section(f"{skipped.total()} skipped")
        for nodeid in sorted(skipped):
            terminalreporter.line(nodeid)


@pytest.fixture(autouse=True)
def _kernels() -> Iterator[None]:
    """Choose again after a test that ran a command of the broker in this process: a broker chooses NumPy."""
    yield
    if TIERS.mode != KERNELS:
        kernels.use(KERNELS)


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[Callable[[str], RealKafka]]:
    """Return the running Apache Kafka of a version, which all tests of this process share, or skip the test.

    It makes topics of three partitions when it is asked for them. A test may restart it. Topics and groups
    are named after the test or its module.
    """
    with RealKafkas() as servers:
        yield servers.running


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper server, which all tests of this process share. A test may restart it."""
    with fast_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
