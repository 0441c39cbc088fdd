"""The console in a real browser: every page, the flows, the live parts, hostile text.

Pictures of pages go into docs/pictures with OTTLA_PICTURES=docs/pictures (`make pictures`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from ottla import Admin, GroupConsumer, Producer
from ottla.admin import ConfigEntry, ConfigSource
from ottla.query.scan import Scan
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.blocking_client import BlockingClient
from tests.console.conftest import ATTACK, Shown, require_chromium
from tests.scale import sized
from tests.waiting import wait_for

TAILED = 50_000
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--window-size=1280,860", "--hide-scrollbars"),
]


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


def test_every_page_is_shown_without_an_error(
    shown: Shown, browser: webdriver.Chrome, picture: Callable[[str], None]
) -> None:
    pages = {
        "": "healthy",
        "/topics": "orders",
        "/topics/orders": "retention.ms",
        "/topics/orders/messages": '"item": "coffee"',
        "/topics/orders/messages?partition=1&offset=7": "offsets 7 to 57 of 0 to 100",
        "/topics/orders/messages/1/7": "table",
        "/groups": "nightly",
        "/groups/kitchen": "records behind",
        "/brokers": "127.0.0.1",
        "/brokers/0": "auto.create.topics.enable",
        "/transactions": "There are none.",
        "/acls": "ACLs",
        "/quotas": "There are none.",
    }
    browser.get_log("browser")
    for path, expected in pages.items():
        browser.get(shown.url + path)
        wait_for(lambda wanted=expected: wanted in text_of(browser), f"{path} shows {expected}")
        assert browser.find_element(By.TAG_NAME, "h1").text
        if path == "/topics/orders":
            picture("console-topic")
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


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
        groups = {"guests", "thieves"}
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
    """50,000 messages at once, again and again: all are counted, few are shown, and the page answers."""
    browser.get(f"{shown.url}/topics/live/messages")
    press(browser, "[data-tail-start]")
    wait_for(lambda: text_of(browser, "[data-tail-state]").startswith("live"), "the tail has begun")
    turns = sized(3, 60)
    with Producer(bootstrap_servers=shown.broker.bootstrap) as producer:
        for turn in range(turns):
            numbers = range(turn * TAILED, (turn + 1) * TAILED)
            table = pa.table(
                {
                    "key": [f"sensor {number % 9}" for number in numbers],
                    "value": [f"event {number}" for number in numbers],
                }
            )
            producer.send_batch("live", table)
            producer.flush()
            wait_for(
                lambda wanted=numbers.stop: counts(browser)[0] == wanted,
                lambda: text_of(browser, "[data-tail-state]"),
            )
        came, not_shown = counts(browser)
        assert came == turns * TAILED
        assert came - turns * 2000 < not_shown < came, "few are shown"
        rows = browser.execute_script("return document.querySelectorAll('[data-rows] tr').length")
        assert 0 < rows <= 300, "the page keeps a bounded number"
        assert f"event {came - 1}" in text_of(browser, "[data-rows]"), "the newest is there"
        picture("console-tail")
        press(browser, "[data-tail-start]")
        assert text_of(browser, "[data-tail-start]") == "Live tail"
        browser.get(shown.url)
        wait_for(lambda: re.search(r"Throughput [\d.]+k", text_of(browser)), lambda: text_of(browser))
        picture("console")


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


def test_the_keyboard_and_a_phone(
    shown: Shown, browser: webdriver.Chrome, picture: Callable[[str], None]
) -> None:
    browser.get(f"{shown.url}/topics")
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    assert browser.switch_to.active_element.get_attribute("name") == "q"
    browser.set_window_size(400, 800)
    try:
        browser.get(f"{shown.url}/groups/kitchen")
        width = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert width[0] <= width[1], "nothing is wider than the screen"
        picture("console-phone")
    finally:
        browser.set_window_size(1280, 860)
