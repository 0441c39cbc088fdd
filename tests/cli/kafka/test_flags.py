"""Command lines as joptsimple reads them."""

from __future__ import annotations

import pytest

from ottla.cli.kafka.flags import Flag, Value, WrongFlags, number, parse, switch

FLAGS = (
    Flag("topic", ""),
    Flag("topic-partitions", ""),
    number("time", ""),
    switch("list", ""),
    Flag("state", "", Value.OPTIONAL),
    Flag("consumer.config", ""),
)


@pytest.mark.parametrize(
    "line",
    ["--topic orders", "--topic=orders", "-topic orders", "-topic=orders"],
)
def test_the_ways_to_write_a_flag(line: str) -> None:
    assert parse(FLAGS, line.split()).value("topic") == "orders"


def test_the_beginning_of_a_name_is_enough_if_it_is_of_one_flag() -> None:
    assert parse(FLAGS, ["--ti", "5"]).whole("time") == 5
    assert parse(FLAGS, ["--consumer", "file"]).value("consumer.config") == "file"
    with pytest.raises(WrongFlags, match=r"^top is not a recognized option$"):
        parse(FLAGS, ["--top", "orders"])


def test_a_value_may_look_like_a_flag() -> None:
    assert parse(FLAGS, ["--time", "-1", "--list"]).whole("time") == -1


def test_a_value_that_may_be_left_out() -> None:
    left_out = parse(FLAGS, ["--state", "--list"])
    assert left_out.has("state")
    assert left_out.value("state") is None
    assert parse(FLAGS, ["--state", "empty"]).value("state") == "empty"


def test_a_flag_may_come_often_if_the_tool_takes_all() -> None:
    found = parse(FLAGS, ["--topic", "a", "--topic=b"])
    assert found.values("topic") == ["a", "b"]
    with pytest.raises(WrongFlags, match="multiple arguments for option topic"):
        found.value("topic")


def test_what_is_no_flag_is_kept() -> None:
    assert parse(FLAGS, ["one", "--list", "-", "--", "--topic"]).rest == ["one", "-", "--topic"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--nosuch x", "nosuch is not a recognized option"),
        ("--topic", "Option topic requires an argument"),
        ("--time x", "Cannot parse argument 'x' of option time"),
        ("--list=x", "Option list does not take an argument"),
    ],
)
def test_what_is_wrong_is_told_in_kafkas_words(line: str, text: str) -> None:
    with pytest.raises(WrongFlags, match=f"^{text}$"):
        parse(FLAGS, line.split())
