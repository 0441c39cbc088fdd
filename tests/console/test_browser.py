"""The console in a real browser: every page, the flows, the live parts, hostile text.

Pictures of pages go into docs/pictures with OTTLA_PICTURES=docs/pictures (`make pictures`).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from ottla import Admin, GroupConsumer, Producer, TopicAndPartition
from ottla.admin import ConfigEntry, ConfigSource
from ottla.model.closing import Closing
from ottla.query.scan import Scan
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.blocking_client import BlockingClient
from tests.console.conftest import ATTACK, Shown, require_chromium
from tests.scale import sized
from tests.waiting import wait_for

TAILED_A_SECOND, TAILED_AT_ONCE = 50_000, 5_000
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--window-size=1280,860", "--hide-scrollbars"),
]


PHONE = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
AUDIT = Path(__file__).with_name("audit.js").read_text()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium, driver = require_chromium()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    with webdriver.Chrome(options=options, service=service) as chrome:
        chrome.set_page_load_timeout(120)
        yield chrome


@pytest.fixture
def picture(browser: webdriver.Chrome, pictures: Path | None) -> Callable[[str], None]:
    def keep(name: str) -> None:
        if pictures is not None:
            browser.save_screenshot(str(pictures / f"{name}.png"))

    return keep


def text_of(browser: webdriver.Chrome, selector: str = "main") -> str:
    """ "" while another page is loaded."""
    found = "const found = document.querySelector(arguments[0]); return found ? found.innerText : ''"
    return str(browser.execute_script(found, selector))


def press(browser: webdriver.Chrome, selector: str) -> None:
    """Wherever it is: live parts above it may grow at any moment."""
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


PAGES = {
    "": "healthy",
    "/topics": "orders",
    "/topics/orders": "retention.ms",
    "/topics/orders/messages": '"item": "coffee"',
    "/topics/orders/messages?partition=1&offset=7": "offsets 7 to 57 of 0 to 100",
    "/topics/orders/messages/1/7": "table",
    "/topics/orders/search?contains=user-2&plain=1": "there may be more",
    "/groups": "nightly",
    "/groups/kitchen": "records behind",
    "/brokers": "127.0.0.1",
    "/brokers/0": "auto.create.topics.enable",
    "/transactions": "There are none.",
    "/acls": "ACLs",
    "/quotas": "There are none.",
    "/pipelines": "--pipeline",
    "/nothing": "There is no page",
}


def test_every_page_is_shown_and_readable_in_light_and_dark_and_on_a_phone(
    shown: Shown, browser: webdriver.Chrome, picture: Callable[[str], None]
) -> None:
    """Contrast by WCAG 2 (4.5; large text 3), names of fields and pictures, nothing wider than a phone."""
    wrong: dict[str, Any] = {}
    browser.get_log("browser")
    try:
        for path, expected in PAGES.items():
            browser.get(shown.url + path)
            wait_for(lambda wanted=expected: wanted in text_of(browser), f"{path} shows {expected}")
            for scheme in ("dark", "light"):
                media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
                wrong[f"{path} in {scheme}"] = browser.execute_script(AUDIT)
            if path == "/topics/orders":
                picture("console-topic")
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
            width = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
            wrong[f"{path} on a phone"] = width if width[0] > width[1] else []
            if path == "/groups/kitchen":
                picture("console-phone")
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_script("document.querySelector('h1').style.color = '#999'")
        assert browser.execute_script(AUDIT) == ["2.66 H1 This did not work"], "the audit sees what is wrong"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert not {where: found for where, found in wrong.items() if found}
    errors = [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    assert all("/nothing" in line["message"] for line in errors), errors


def test_pages_and_forms_work_without_javascript(shown: Shown, browser: webdriver.Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        for path, expected in PAGES.items():
            browser.get(shown.url + path)
            assert expected in browser.find_element(By.TAG_NAME, "main").text, path
        browser.get(f"{shown.url}/topics/orders/search?contains=user-3")
        browser.find_element(By.PARTIAL_LINK_TEXT, "Show the first").click()
        wait_for(lambda: "50 hits; there may be more" in text_of(browser), "the first hits")
        browser.get(f"{shown.url}/topics/live")
        browser.find_element(By.CSS_SELECTOR, "#produce summary").click()
        browser.find_element(By.NAME, "value").send_keys("by hand")
        browser.find_element(By.CSS_SELECTOR, "#produce button").click()
        wait_for(lambda: "by hand" in text_of(browser), "the page with the new record")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_search_streams_its_hits(
    shown: Shown, browser: webdriver.Chrome, picture: Callable[[str], None]
) -> None:
    browser.get(f"{shown.url}/topics/orders/search?contains=user-3")
    wait_for(lambda: text_of(browser, "[data-state]").startswith("done · 60 hits in 300 of 300"), "all hits")
    assert len(browser.find_elements(By.CSS_SELECTOR, "[data-rows] tr")) == 60
    picture("console-search")
    browser.get(f"{shown.url}/topics/orders/search?where=amount+%3E+297")
    wait_for(lambda: text_of(browser, "[data-state]").startswith("done · 2 hits"), "hits of a condition")
    browser.get(f"{shown.url}/topics/orders/search?where=amout+%3E+297")
    wait_for(lambda: "amout" in text_of(browser, "[data-state]"), "what is wrong with the condition")


def test_a_cancelled_search_ends_on_the_server_too(
    shown: Shown, browser: webdriver.Chrome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is held after its first part, so that it cannot be done before it is cancelled."""
    released, closed = threading.Event(), threading.Event()
    steps, close = Scan.steps, Scan.close

    def held_steps(found: Scan) -> Iterator[Any]:
        for batch in steps(found):
            yield batch
            released.wait(60)

    monkeypatch.setattr(Scan, "steps", held_steps)
    monkeypatch.setattr(Scan, "close", lambda found: (close(found), closed.set()))
    try:
        browser.get(f"{shown.url}/topics/orders/search?contains=user-3")
        wait_for(lambda: "hits in" in text_of(browser, "[data-state]"), "the first hits")
        assert not closed.is_set()
        press(browser, "[data-cancel]")
        assert text_of(browser, "[data-state]").startswith("cancelled")
    finally:
        released.set()
    assert closed.wait(60), "the search has ended"


def test_live_tail_shows_the_newest_and_counts_the_rest(
    shown: Shown, browser: webdriver.Chrome, picture: Callable[[str], None]
) -> None:
    """50,000 messages a second: all are counted, few are shown, and the page answers all the time."""
    browser.get(f"{shown.url}/topics/live/messages")
    press(browser, "[data-tail-start]")
    wait_for(lambda: text_of(browser, "[data-tail-state]").startswith("live"), "the tail has begun")
    count = TAILED_A_SECOND * sized(3, 180)
    heap = "return performance.memory.usedJSHeapSize"
    heap_before = browser.execute_script(heap)
    with SteadyWriter(shown.broker.bootstrap, "live", count) as writer:
        last = -1
        while writer.is_writing:
            wait_for(lambda now=last: counts(browser)[0] > now or not writer.is_writing, "more messages")
            last, not_shown = counts(browser)
            rows = browser.execute_script("return document.querySelectorAll('[data-rows] tr').length")
            assert rows <= 300, "the page keeps a bounded number"
            assert not_shown <= last
    wait_for(lambda: counts(browser)[0] == count, lambda: text_of(browser, "[data-tail-state]"))
    assert count * 0.9 < counts(browser)[1] < count, "few are shown"
    assert f"event {count - 1}" in text_of(browser, "[data-rows]"), "the newest is there"
    assert browser.execute_script(heap) - heap_before < 64 << 20
    assert writer.seconds < sized(10, 1.05) * count / TAILED_A_SECOND, f"{count} in {writer.seconds:.1f} s"
    picture("console-tail")
    press(browser, "[data-tail-start]")
    assert text_of(browser, "[data-tail-start]") == "Live tail"
    browser.get(shown.url)
    label = "return document.querySelector('[aria-label^=Throughput]')?.ariaLabel || ''"
    wait_for(lambda: re.search(r"and [\d.]+k", browser.execute_script(label)), lambda: text_of(browser))
    picture("console")


class SteadyWriter(Closing):
    """A thread that writes `event 0`, `event 1`, … at a steady rate; `seconds` is how long it took."""

    def __init__(self, bootstrap: str, topic: str, count: int) -> None:
        self._producer = Producer(bootstrap_servers=bootstrap)
        self._topic = topic
        self._count = count
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def is_writing(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        ticks = threading.Event()
        began = time.monotonic()
        for first in range(0, self._count, TAILED_AT_ONCE):
            numbers = range(first, first + TAILED_AT_ONCE)
            table = pa.table(
                {
                    "key": [f"sensor {number % 9}" for number in numbers],
                    "value": [f"event {number}" for number in numbers],
                }
            )
            ticks.wait(max(0.0, began + first / TAILED_A_SECOND - time.monotonic()))
            self._producer.send_batch(self._topic, table)
        self._producer.flush()
        self.seconds = time.monotonic() - began

    def close(self) -> None:
        """Wait until everything is written."""
        self._thread.join()
        self._producer.close()


def counts(browser: webdriver.Chrome) -> tuple[int, int]:
    """How many came, and how many of them were not shown."""
    found = re.search(r"([\d,]+) came · ([\d,]+) not shown", text_of(browser, "[data-tail-state]"))
    return (int(found[1].replace(",", "")), int(found[2].replace(",", ""))) if found else (0, 0)


def test_offsets_are_reset_by_plan_confirmation_and_reading_back(
    shown: Shown, browser: webdriver.Chrome, picture: Callable[[str], None]
) -> None:
    browser.get(f"{shown.url}/groups/nightly")
    Select(browser.find_element(By.NAME, "to")).select_by_value("offset")
    browser.find_element(By.NAME, "offset").send_keys("77")
    press(browser, "form[action$='/reset'] button")
    wait_for(lambda: "Nothing is written yet" in text_of(browser), lambda: text_of(browser))
    assert "resets-0\t5\t77\t+72" in text_of(browser, "table")
    picture("console-reset")
    press(browser, "button.danger")
    wait_for(lambda: "read back as they were planned" in text_of(browser), "the result")
    assert "resets-1\t77\t77" in text_of(browser, "table")


def test_a_rebalance_is_seen_as_it_happens(
    shown: Shown, browser: webdriver.Chrome, picture: Callable[[str], None]
) -> None:
    settings: dict[str, Any] = {"group_id": "cooks", "bootstrap_servers": shown.broker.bootstrap}
    with GroupConsumer("orders", client_id="first", **settings) as first:
        wait_for(lambda: len(polled(first).assignment) == 3, "the first member reads all")
        browser.get(f"{shown.url}/groups/cooks")
        wait_for(lambda: "first" in text_of(browser), "the member is shown")
        with GroupConsumer("orders", client_id="second", **settings) as second:
            wait_for(
                lambda: (
                    len(polled(first).assignment) + len(polled(second).assignment) == 3 and second.assignment
                ),
                "both read",
            )
            wait_for(lambda: "second" in text_of(browser) and "joined" in text_of(browser), "who joined")
            wait_for(lambda: "→ second" in text_of(browser, ".changes"), "what it has now")
            picture("console-rebalance")


def polled(consumer: GroupConsumer) -> GroupConsumer:
    consumer.poll(0.05)
    return consumer


def test_the_keyboard(shown: Shown, browser: webdriver.Chrome) -> None:
    """/ goes to the filter, the first Tab to the link that skips the navigation; the focus is visible."""
    browser.get(f"{shown.url}/topics")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("/")
    assert browser.switch_to.active_element.get_attribute("name") == "q"
    browser.switch_to.active_element.send_keys("orders", Keys.ENTER)
    wait_for(lambda: "q=orders" in browser.current_url, "the filter is sent by Enter")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to content"
    assert skip.value_of_css_property("outline-style") != "none"
    skip.send_keys(Keys.ENTER)
    assert browser.current_url.endswith("#main")


def test_hostile_text_is_shown_and_does_nothing(
    shown: Shown, browser: webdriver.Chrome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As message, key, header, topic setting, group, member and client id; on pages and in live parts."""
    described = Admin.describe_configs

    def hostile_settings(admin: Admin, resource: Any) -> Any:
        """Brokers refuse such values: this is one that does not."""
        hostile = ConfigEntry(ATTACK, ATTACK, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        return {**described(admin, resource), ATTACK: hostile}

    monkeypatch.setattr(Admin, "describe_configs", hostile_settings)
    host, port = shown.broker.bootstrap.split(":")
    with Admin(bootstrap_servers=shown.broker.bootstrap) as admin:
        admin.alter_group_offsets(ATTACK, {TopicAndPartition("hostile", 0): 0})
    with (
        GroupConsumer(
            "hostile",
            group_id="guests",
            client_id=ATTACK,
            bootstrap_servers=shown.broker.bootstrap,
            auto_offset_reset="earliest",
        ) as member,
        BlockingClient(host, int(port), client_id="thief") as thief,
    ):
        assert member.poll(60) is not None
        joined = thief.call(
            ConsumerGroupHeartbeatRequest(
                group_id="thieves",
                member_id=ATTACK,
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=["hostile"],
                topic_partitions=[],
            )
        )
        assert joined.error_code == 0, joined
        groups = {ATTACK, "guests", "thieves"}
        wait_for(lambda: groups <= shown.console.snapshot.lags.keys(), "the groups are seen")
        for path, selector in (
            ("/topics/hostile", "main table td code"),
            ("/topics/hostile/messages", ".records"),
            ("/topics/hostile/messages/0/0", ".record"),
            ("/topics/hostile/search?contains=onerror", ".records"),
            ("/groups", "main"),
            ("/groups/guests", "main"),
            ("/groups/thieves", "main"),
            ("", "main"),
        ):
            browser.get(shown.url + path)
            wait_for(lambda at=selector: ATTACK in text_of(browser, at), f"{path} shows the text")
            assert not browser.find_elements(By.CSS_SELECTOR, "main img, main script")
            assert "hacked" not in browser.title
