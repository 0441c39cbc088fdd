"""Which topics of a pipeline are written in transactions."""

from __future__ import annotations

from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, Unsupported
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.guarantee import guaranteed, named


def options(broker: EmbeddedBroker, *, sink: dict[str, Any], letters: dict[str, Any]) -> tuple[Any, ...]:
    """The options of both topics as a run has them, without the topics' names."""
    form = PipelineForm.of(
        {
            "source": {"bootstrap": broker.bootstrap, "topics": ["in"]},
            "decode": {"format": "json", "schema": "id long"},
            "sink": {"format": "topic", "options": {"topic": "out", **sink}},
            "dead_letters": {"topic": "bad", "options": letters},
        }
    )
    made = guaranteed(form)
    assert made.dead_letters is not None
    both = (dict(made.sink.options), dict(made.dead_letters.options))
    assert [one.pop("topic") for one in both] == ["out", "bad"]
    return both


def test_transactions_are_the_default(broker: EmbeddedBroker) -> None:
    once = {"exactlyOnce": "true"}
    assert options(broker, sink={}, letters={}) == (once, once)


def test_what_is_chosen_stays(broker: EmbeddedBroker) -> None:
    assert options(broker, sink={"rowIdentity": True}, letters={"exactlyonce": False}) == (
        {"rowIdentity": "true"},
        {"exactlyonce": "false"},
    )


def test_brokers_without_transactions_are_written_as_ever(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Unsupported("listing transactions: it came with 3.0")

    monkeypatch.setattr(Admin, "list_transactions", refuse)
    assert options(broker, sink={}, letters={}) == ({}, {})
    assert "rows of topic bad may be repeated after a crash" in caplog.text


def test_a_repeated_write_has_the_same_name() -> None:
    assert named({"topic": "t"}, "q", 7) == {"topic": "t"}
    for name in ("exactlyOnce", "rowIdentity"):
        given = {"topic": "t", name: "true"}
        assert named(given, "q", 7) == {**given, "writeId": "q", "batchId": "7"}
