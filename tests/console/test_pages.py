"""The console over HTTP: who may use it, what its forms do, how large pages are, and its pure parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from ottla import Admin, ConfigError, EmbeddedBroker, ShareConsumer, TopicAndPartition
from ottla.admin import GroupDescription, GroupKind, GroupMember, NewTopic
from ottla.console.charts import chart, sparkline
from ottla.console.display import moment, seconds, short, shown, size
from ottla.console.history import POINTS_MAX, SERIES_MAX, History, Series
from ottla.console.paging import part_of
from ottla.console.rebalances import GOES_ON, PartitionMove, RebalanceLog, rebalance
from ottla.console.server import ConsoleServer
from tests.console.conftest import FAR_MS, Shown
from tests.console.visitor import Visitor
from tests.waiting import wait_for

PAGE_BYTES_MAX = 60_000


@pytest.fixture
def visitor(shown: Shown) -> Visitor:
    return Visitor(shown.url)


PAGES = [
    *("/", "/topics", "/topics/orders", "/topics/orders/messages", "/topics/orders/search", "/groups"),
    *("/groups/kitchen", "/brokers", "/brokers/0", "/transactions", "/topics/orders/messages/0/3"),
    *("/acls", "/quotas", "/pipelines", "/topics/orders/search?contains=user-2&plain=1"),
]


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_small_and_safe(visitor: Visitor, path: str) -> None:
    status, text, answer, sent = visitor.ask("GET", path)
    assert status == 200, text
    assert answer.getheader("Content-Security-Policy").startswith("default-src 'self'")
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert not re.search(r"\sstyle=|\son\w+=\"|https?://(?!127)", text), "nothing inline or from elsewhere"
    assert text.count("<h1") == 1
    extras = [visitor.ask("GET", f"/static/{name}")[3] for name in ("console.css", "console.js", "icon.svg")]
    assert sent + sum(extras) <= PAGE_BYTES_MAX


def test_what_does_not_exist_is_said(visitor: Visitor) -> None:
    assert visitor.ask("GET", "/topics/nothing")[0] == 404
    status, text, *_ = visitor.ask("GET", "/topics/orders/messages?partition=9")
    assert status == 400
    assert "has no partition 9" in text
    assert visitor.ask("GET", "/topics/orders/messages?partition=x")[0] == 400
    status, text, *_ = visitor.ask("GET", "/nothing")
    assert status == 404
    assert "There is no page /nothing." in text
    assert visitor.ask("POST", "/topics", {})[0] == 405
    assert "--pipeline" in visitor.ask("GET", "/pipelines")[1]
    assert "no authorizer" in visitor.ask("GET", "/acls")[1]
    assert visitor.ask("GET", "/zookeeper")[0] == 502, "there is none here"


def test_a_request_for_another_host_is_refused(visitor: Visitor) -> None:
    """A page of evil.example whose name leads here gets nothing."""
    assert visitor.ask("GET", "/", Host="evil.example")[0] == 421


def test_a_form_needs_the_sessions_token_and_our_origin(visitor: Visitor, shown: Shown) -> None:
    fields = {"key": "k", "value": "v", "partition": "0"}
    path = "/topics/orders/produce"
    assert visitor.ask("POST", path, fields)[0] == 403
    token = visitor.csrf("/topics/orders")
    assert visitor.ask("POST", path, {**fields, "csrf": "0" * 64})[0] == 403
    assert visitor.ask("POST", path, {**fields, "csrf": token}, Origin="http://evil.example")[0] == 403
    assert visitor.ask("POST", path, {**fields, "csrf": token, "value": "x" * 2_000_000})[0] == 413
    stranger = Visitor(shown.url)
    stranger.csrf("/topics/orders")
    assert stranger.ask("POST", path, {**fields, "csrf": token})[0] == 403
    status, _, answer, _ = visitor.ask("POST", path, {**fields, "csrf": token, "headers": "a: 1\nb"})
    assert status == 303
    where = answer.getheader("Location")
    assert re.fullmatch(r"/topics/orders/messages\?partition=0&offset=\d+", where)
    _, text, *_ = visitor.ask("GET", where)
    assert "<dt>a</dt>" in text
    assert visitor.ask("POST", "/topics/nothing/produce", {**fields, "csrf": token})[0] == 404


def test_a_reset_of_a_group_is_planned_and_wrong_wishes_are_refused(visitor: Visitor) -> None:
    token = visitor.csrf("/groups/kitchen")
    path = "/groups/kitchen/reset"
    wish = {"csrf": token, "topic": "orders", "to": "shift", "shift": "5"}
    status, text, *_ = visitor.ask("POST", path, {**wish, "to": "latest"})
    assert status == 200
    assert "Nothing is written yet" in text
    for wrong in ({"to": "offset", "offset": "x"}, {"to": "time", "time": "now"}, {"to": ""}, {"store": "x"}):
        assert visitor.ask("POST", path, {**wish, **wrong})[0] == 400, wrong
    assert visitor.ask("POST", f"{path}/confirm", {"csrf": token, "offsets": "[[1]]"})[0] == 400


def test_messages_by_time_and_as_a_download(visitor: Visitor) -> None:
    status, _, answer, _ = visitor.ask("GET", "/topics/orders/messages?partition=0&time=2000-01-01T00:00")
    assert (status, answer.getheader("Location")) == (303, "/topics/orders/messages?partition=0&offset=0")
    status, text, answer, _ = visitor.ask("GET", "/topics/orders/download?key=table+3&contains=user-2")
    assert status == 200
    assert answer.getheader("Content-Disposition") == 'attachment; filename="orders.jsonl"'
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["key"] for line in lines} == {"table 3"}
    assert all("user-2" in line["value"] for line in lines)
    _, text, *_ = visitor.ask("GET", "/topics/orders/messages?partition=1&offset=97")
    assert 'href="/topics/orders/download?partition=1&amp;offset=97"' in text
    _, text, *_ = visitor.ask("GET", "/topics/orders/download?partition=1&offset=97")
    found = [(line["partition"], line["offset"]) for line in map(json.loads, text.splitlines())]
    assert found == [(1, 97), (1, 98), (1, 99)]
    status, text, *_ = visitor.ask("GET", "/topics/orders/search?contains=user-2&plain=1")
    assert status == 200
    assert "50 hits; there may be more" in text


def test_a_record_of_a_far_year_is_shown_and_downloaded(visitor: Visitor) -> None:
    status, text, *_ = visitor.ask("GET", "/topics/hostile/messages")
    assert status == 200
    assert f"{FAR_MS} ms" in text
    _, text, *_ = visitor.ask("GET", "/topics/hostile/download")
    assert FAR_MS in [line["timestamp_ms"] for line in map(json.loads, text.splitlines())]


def test_read_only_and_token(shown: Shown) -> None:
    with ConsoleServer(
        {"bootstrap.servers": shown.broker.bootstrap}, token="secret-token", is_read_only=True
    ) as console:
        console.start()
        visitor = Visitor(console.url)
        status, _, answer, _ = visitor.ask("GET", "/topics")
        assert (status, answer.getheader("Location")) == (303, "/login")
        assert visitor.ask("GET", "/live/overview")[0] == 303
        assert visitor.ask("GET", "/login")[0] == 200
        assert visitor.ask("POST", "/login", {"token": "wrong"})[0] == 403
        assert visitor.ask("GET", "/topics")[0] == 303, "the page of the log-in lets nobody in"
        visitor.cookie = "ottla_console=forged.0"
        assert visitor.ask("GET", "/topics")[0] == 303
        assert visitor.ask("POST", "/login", {"token": "secret-token"})[0] == 303
        cookie = visitor.ask("POST", "/login", {"token": "secret-token"})[2].getheader("Set-Cookie")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        status, text, *_ = visitor.ask("GET", "/topics/orders")
        assert status == 200
        assert "read-only" in text
        assert '/produce"' not in text
        assert visitor.ask("POST", "/topics/orders/produce", {"value": "v"})[0] == 403
    with pytest.raises(ConfigError, match=r"the console cannot listen on 203\.0\.113\.1:0: "):
        ConsoleServer({"bootstrap.servers": shown.broker.bootstrap}, host="203.0.113.1")


def test_an_unreachable_cluster_is_said(tmp_path: Path) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": 200}
    with ConsoleServer(settings, history=tmp_path / "history") as console:
        console.start()
        wait_for(lambda: console.snapshot.error, "the error")
        status, text, *_ = Visitor(console.url).ask("GET", "/")
        assert status == 200
        assert "unreachable" in text
        assert "127.0.0.1:1" in text


def test_groups_of_all_kinds_are_side_by_side(shown: Shown, visitor: Visitor) -> None:
    settings = {"bootstrap.servers": shown.broker.bootstrap}
    with ShareConsumer("orders", settings, group_id="queue") as queue:
        queue.poll(0)
        wait_for(lambda: "queue" in shown.console.snapshot.lags, lambda: shown.console.snapshot)
        _, text, *_ = visitor.ask("GET", "/groups")
        assert "share (KIP-932)" in text
        assert "<td>classic</td>" in text
        status, text, *_ = visitor.ask("GET", "/groups/queue")
        assert status == 200
        assert "share (KIP-932)" in text
        assert "not everything is known" not in text.lower()


def test_an_unexpected_error_is_shown_and_the_console_looks_again(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = shown.console._sampler
    with monkeypatch.context() as patches:
        patches.setattr(sampler, "_look", lambda _: [].pop())
        assert "IndexError" in sampler.look().error
        assert "could not look at the cluster" in caplog.text
    wait_for(lambda: not shown.console.snapshot.error, "the next look")


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[EmbeddedBroker, ConsoleServer]]:
    """200 topics with 2,000 partitions, 60 groups."""
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(f"topic-{number:03d}", 10) for number in range(200)])
            for number in range(60):
                admin.alter_group_offsets(f"group-{number}", {TopicAndPartition(f"topic-{number:03d}", 0): 0})
        with ConsoleServer({"bootstrap.servers": broker.bootstrap}) as console:
            console.start()
            wait_for(lambda: console.snapshot.at, "the first look")
            yield broker, console


def test_long_lists_come_in_parts(large: tuple[EmbeddedBroker, ConsoleServer]) -> None:
    visitor = Visitor(large[1].url)
    _, text, _, sent = visitor.ask("GET", "/topics?page=2")
    assert "page 2 of 4" in text
    assert "topic-050" in text
    assert "topic-049<" not in text
    assert sent < PAGE_BYTES_MAX
    assert "page 1 of 2" in visitor.ask("GET", "/groups")[1]
    assert visitor.ask("GET", "/topics?q=topic-1&sort=records&page=99999999999")[0] == 200
    assert "No topic fits" in visitor.ask("GET", "/topics?q=none")[1]


# --- pure parts


def test_a_series_is_bounded_and_knows_when_it_had_a_value() -> None:
    series = Series()
    for number in range(POINTS_MAX * 5):
        series.add(float(number), number * 10.0)
    assert len(series.points) <= POINTS_MAX
    assert series.points[-1] == (POINTS_MAX * 5 - 1, (POINTS_MAX * 5 - 1) * 10)
    assert series.time_of(series.points[-2][1]) == series.points[-2][0]
    assert series.time_of(-1) is None
    assert series.time_of(1e9) is None
    assert series.rates()[-1][1] == 10
    series.add(0, 5)
    assert series.points[-1][0] == POINTS_MAX * 5 - 1, "time does not go back"


def test_a_history_survives_a_file_and_bad_files() -> None:
    history = History()
    history.add(1.0, {"a": 2.0, "b": 3.0})
    history.add(2.0, {f"n{number}": 1.0 for number in range(SERIES_MAX + 10)})
    saved = json.loads(json.dumps(history.to_json()))
    assert len(saved) == SERIES_MAX
    assert History.from_json(saved).series("a").points == [(1.0, 2.0)]
    for number in range(60):
        history.add(float(1_763_444_000 + number), dict.fromkeys(saved, 123_456_789.0))
    text = json.dumps(history.to_json(), separators=(",", ":"))
    assert 1_000_000 < len(text) < 6_500_000, "a small file, however large the cluster"
    assert json.loads(text)["a"][-1] == [1_763_444_059, 123_456_789], "the newest is there"
    bad: object
    for bad in ([], {"a": 3}, {"a": [[1], [1, "x"], None]}, None):
        assert History.from_json(bad).series("a").points == []
    history.keep_only(["b"])
    assert history.series("a").points == []


def test_charts_escape_and_have_a_text() -> None:
    drawn = chart([(0.0, 1.0), (1.0, 1500.0)], "<Lag>", "records")
    assert "&lt;Lag&gt;: 1.5k records now, between 1 and 1.5k" in drawn
    assert "style=" not in drawn
    assert "measured twice" in chart([(0.0, 1.0)], "Lag", "records")
    assert sparkline([], "x") == ""
    assert "&#34;" in sparkline([(0, 0), (1, 0)], '"')


def test_how_values_are_shown() -> None:
    assert [short(value) for value in (None, 0, 950, 1234)] == ["\N{EN DASH}", "0", "950", "1.23k"]
    assert [seconds(value) for value in (0, 89, 600, 7200)] == ["0 s", "89 s", "10 min", "2.0 h"]
    assert (size(0), size(2048), moment(-1)) == ("0 B", "2 KiB", "\N{EN DASH}")
    assert moment(10**18) == f"{10**18} ms"
    kinds = [shown(data).kind for data in (None, b"", b'{"a": 1}', b"{", b"\xff", b"[" * 9999)]
    assert kinds == ["null", "empty", "json", "text", "bytes", "text"]
    assert shown(b"x" * 9999).is_cut


def test_parts_of_a_list() -> None:
    items = list(range(120))
    assert part_of(items, "3").rows == items[100:]
    assert part_of(items, "99").number == 3
    assert [part_of(items, wrong).number for wrong in ("", "0", "-1", "x", "9" * 30)] == [1, 1, 1, 1, 1]
    assert part_of([], "").pages == 1


def test_a_rebalance_says_who_had_what_who_has_it_and_why() -> None:
    def group(state: str, **members: tuple[int, ...]) -> GroupDescription:
        parts = {name: tuple(TopicAndPartition("t", n) for n in numbers) for name, numbers in members.items()}
        described = tuple(
            GroupMember(f"{name}-1", name, "h", None, ("t",), owned) for name, owned in parts.items()
        )
        return GroupDescription("g", GroupKind.KAFKA, state, "consumer", "range", None, described)

    before, after = group("Stable", a=(0, 1)), group("Stable", a=(0,), b=(1,))
    assert rebalance(before, before, 1.0) is None
    change = rebalance(before, after, 1.0)
    assert change is not None
    assert change.reasons == ("b-1 joined",)
    assert change.moves == (PartitionMove("t-1", "a-1", "b-1"),)
    gone = rebalance(after, group("Empty"), 2.0)
    assert gone is not None
    assert gone.reasons == tuple(f"{name}-1 left, or was silent for too long" for name in "ab")
    assert [move.after for move in gone.moves] == ["", ""]
    grown = rebalance(before, group("Stable", a=(0, 1, 2)), 3.0)
    assert grown is not None
    assert grown.reasons == ("t has more partitions",)
    later = rebalance(before, group("Stable", a=(0,)), 4.0)
    assert later is not None
    assert later.reasons == (GOES_ON,)

    log = RebalanceLog()
    for at, look in ((1.0, before), (3.0, after), (2.0, before), (3.5, after)):
        log.note(at, [look])  # two browsers and the sampler look; the answer of an earlier look comes late
    assert log.changes("g") == [replace(change, at=3.0)]
    log.keep_only([])
    assert log.changes("g") == []


def test_a_console_that_ends_ends_its_live_parts(shown: Shown, capfd: pytest.CaptureFixture[str]) -> None:
    """A browser that still looks at them is no error."""
    with ConsoleServer({"bootstrap.servers": shown.broker.bootstrap}, every_s=0.2) as console:
        console.start()
        wait_for(lambda: console.snapshot.at, "the first look")
        paths = ("/live/overview", "/live/groups/kitchen", "/live/topics/orders/tail")
        streams = [urlopen(f"{console.url.rstrip('/')}{path}", timeout=60) for path in paths]
        for stream in streams:
            assert stream.readline().startswith(b"event: ")
    for stream in streams:
        stream.read()
        stream.close()
    assert capfd.readouterr() == ("", "")
