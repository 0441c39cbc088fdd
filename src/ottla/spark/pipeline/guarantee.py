"""How the topics of a pipeline get every row once: by transactions where brokers have them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from ottla.admin import Admin
from ottla.model.errors import Unsupported
from ottla.spark.exactly_once.decision_log import client_settings
from ottla.spark.options import KAFKA, SINK_OPTIONS, parse_options
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.sink_form import SinkForm, SinkFormat

log = logging.getLogger(__name__)

EXACTLY_ONCE, ROW_IDENTITY = "exactlyOnce", "rowIdentity"


def guaranteed(form: PipelineForm) -> PipelineForm:
    """Return the form with exactlyOnce for its topics, if brokers have transactions and the user chose
    nothing else.

    Asks the brokers. Raises what connections raise, and ConfigError.
    """
    letters = form.dead_letters and _guaranteed(form.dead_letters, form.source)
    sinks = tuple(_guaranteed(sink, form.source) for sink in form.sinks)
    return replace(form, sinks=sinks, dead_letters=letters)


def _guaranteed(sink: SinkForm, source: Mapping[str, str]) -> SinkForm:
    if sink.format is not SinkFormat.TOPIC:
        return sink
    given = parse_options(SINK_OPTIONS, topic_options(sink, source))
    if given.is_given(EXACTLY_ONCE) or given.is_given(ROW_IDENTITY):
        return sink
    if not has_transactions(given.kafka):
        log.warning(
            "the brokers have no transactions: rows of topic %s may be repeated after a crash; with the"
            " option rowIdentity readers can tell",
            given.values["topic"],
        )
        return sink
    return replace(sink, options={**sink.options, EXACTLY_ONCE: "true"})


def topic_options(sink: SinkForm, source: Mapping[str, str]) -> dict[str, str]:
    """Options of format("ottla"): the source's cluster, unless the sink names another one."""
    return {name: value for name, value in source.items() if name.startswith(KAFKA)} | dict(sink.options)


def has_transactions(properties: Mapping[str, object]) -> bool:
    """Whether the brokers have what exactlyOnce needs."""
    with Admin(client_settings(properties)) as admin:
        try:
            admin.list_transactions(states=["Ongoing"])
        except Unsupported:
            return False
    return True


def named(options: Mapping[str, str], name: str, batch: int) -> dict[str, str]:
    """Return options for the write of a batch, the same for its repetition; unchanged without exactlyOnce and
    rowIdentity.
    """
    given = parse_options(SINK_OPTIONS, options).values
    if not given[EXACTLY_ONCE] and not given[ROW_IDENTITY]:
        return dict(options)
    return {**options, "writeId": name, "batchId": str(batch)}
