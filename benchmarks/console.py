"""The console on a large cluster: 1,000 topics, 20,000 partitions, 500 groups.

Three questions about each page: the CPU time of the process (broker and console) until it is whole, the bytes
that a browser loads for it, and when Chromium paints first, by the browser's own clock, if it is installed.
"""

from __future__ import annotations

import http.client
import json
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.harness import FULL, Better, Case, Effort, Peer, benchmark
from ottla import Admin, EmbeddedBroker, TopicAndPartition
from ottla.admin import NewTopic
from ottla.console.history import POINTS_MAX
from ottla.console.sampler import GROUP, TOPIC
from ottla.console.server import ConsoleServer

TOPICS, PARTITIONS, GROUPS = 1000, 20, 500
FEW = 10
"""A quick run has so many times fewer of all."""
PAINT_S, BYTES_MAX = 1.0, 60_000
STATIC = ("/static/console.css", "/static/console.js", "/static/icon.svg")
PAGES = ("/", "/topics", "/topics/topic-0007", "/groups", "/groups/group-007", "/brokers")
_BROWSER = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


@benchmark("console")
def console(effort: Effort) -> Iterator[Case]:
    """CPU time and bytes of pages; the first paint."""
    scale = 1 if effort is FULL else FEW
    with _shown(TOPICS // scale, GROUPS // scale) as url:
        size = (
            f"{TOPICS // scale} topics, {TOPICS // scale * PARTITIONS} partitions, {GROUPS // scale} groups"
        )
        for path in PAGES:
            yield _case(f"{path}, {size}: CPU time", "s", PAINT_S, partial(_cpu_s, url, path), effort)
            yield _case(f"{path}, {size}: gzipped", "bytes", BYTES_MAX, partial(_bytes, url, path), effort)
        if shutil.which("chromium") and shutil.which("chromedriver"):
            with _browser() as first_paint_s:
                for path in ("/", "/topics", "/groups"):
                    name = f"{path}, {size}: first paint in Chromium"
                    yield _case(name, "s", PAINT_S, partial(first_paint_s, f"{url}{path}"), effort)


def _case(name: str, unit: str, target: float, measure: Callable[[], float], effort: Effort) -> Case:
    goal = Peer("the target", measure=lambda: target, target=1)
    return Case(f"console {name}", unit, measure, [goal], effort.server_rounds, Better.LESS)


@contextmanager
def _shown(topics: int, groups: int) -> Iterator[str]:
    """The address of a console with full charts that has looked at such a cluster once, and looks no more."""
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            names = [f"topic-{number:04d}" for number in range(topics)]
            admin.create_topics([NewTopic(name, PARTITIONS) for name in names])
            for number in range(groups):
                topic = names[number % topics]
                parts = [TopicAndPartition(topic, part) for part in range(PARTITIONS)]
                admin.alter_group_offsets(f"group-{number:03d}", dict.fromkeys(parts, 0))
        with (
            tempfile.NamedTemporaryFile("w", suffix=".json") as history,
            ConsoleServer(
                {"bootstrap.servers": broker.bootstrap},
                history=_written_history(Path(history.name), names, groups),
                every_s=3600,
            ) as server,
        ):
            server.start()
            while not server.snapshot.at:
                threading.Event().wait(0.05)
            if server.snapshot.error:
                raise AssertionError(server.snapshot.error)
            yield server.url.rstrip("/")


def _written_history(file: Path, topics: Sequence[str], groups: int) -> Path:
    """A file with full series for all charts, as after hours."""
    lines = [f"{GROUP}group-{number:03d}" for number in range(groups)]
    lines += ["records", "lag", *(f"{TOPIC}{name}" for name in topics)]
    times = [int(time.time()) - 5 * back for back in range(POINTS_MAX, 0, -1)]
    numbers = random.Random(19)
    series = {
        name: list(zip(times, accumulate(numbers.choices(range(5000), k=POINTS_MAX)), strict=True))
        for name in lines
    }
    file.write_text(json.dumps(series))
    return file


def _cpu_s(url: str, path: str) -> float:
    began = time.process_time()
    _loaded(url, path)
    return time.process_time() - began


def _bytes(url: str, path: str) -> float:
    return sum(_loaded(url, one) for one in (path, *STATIC))


def _loaded(url: str, path: str) -> int:
    """Load a page; returns the bytes of its body as they were sent."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise AssertionError(f"{path}: HTTP {answer.status}")
        return len(body)
    finally:
        connection.close()


@contextmanager
def _browser() -> Iterator[Callable[[str], float]]:
    """Loads an address in Chromium, and returns the seconds to the first paint with content."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory(prefix="ottla-console-") as place:
        for flag in (*_BROWSER, f"--user-data-dir={place}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
        with webdriver.Chrome(options=options, service=service) as chrome:
            painted = "return performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0]"

            def first_paint_s(address: str) -> float:
                chrome.get(address)
                while (milliseconds := chrome.execute_script(painted)) is None:
                    threading.Event().wait(0.02)
                return float(milliseconds) / 1000

            yield first_paint_s
