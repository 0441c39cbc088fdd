"""What a pipeline's file may say, and what is told about one that says something else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ottla import ConfigError
from ottla.spark.pipeline import form as module
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.offsets import bounded
from ottla.spark.pipeline.ranges import ending, starting

ROOT = Path(__file__).parents[2]
GOOD: dict[str, Any] = {
    "source": {"bootstrap": "h:9092", "topics": ["t"]},
    "sink": {"format": "console"},
}
WINDOW = {"duration": "1 minute", "aggregates": ["count(*) as n"]}


def test_the_form_that_the_module_shows_tells_what_it_does(tmp_path: Path) -> None:
    assert module.__doc__ is not None
    shown = module.__doc__.split("\n", 2)[2]
    lines = [line.split("   ")[0] for line in shown.splitlines()]
    left_out = ("schema_file", "message", "skip_bytes", "registry", "subject", "topic =", "options")
    text = "\n".join(line for line in lines if not line.startswith(left_out)).replace("…", "*")
    path = tmp_path / "form.toml"
    path.write_text(text)
    form = PipelineForm.read(path)
    assert form.checkpoint == "state/orders"
    assert form.source == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "subscribePattern": "^(orders|returns-.*)$",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "100000",
    }
    assert [line.split()[0] for line in form.steps()] == [
        *("read", "decode", "arrow", "sql", "python", "window", "count(*)", "sum(cents)", "write", "refused")
    ]
    assert tomllib.loads(text)["sink"]["partition_by"] == ["date"]


EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_pipelines(path: Path) -> None:
    assert PipelineForm.read(path).checkpoint


def test_the_page_shows_a_pipeline() -> None:
    (text,) = TOML.findall((ROOT / "docs" / "pipeline.md").read_text())
    form = PipelineForm.of(tomllib.loads(text))
    assert form.window is not None
    assert form.sink.compact_after == 16


def test_options_are_those_of_the_format_too() -> None:
    source = {"kafka": {"bootstrap": {"servers": "h:1"}}, "subscribe": "a,b", "includeHeaders": True}
    form = PipelineForm.of({**GOOD, "source": {**source, "start": "2026-01-31"}})
    assert form.source == {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "a,b",
        "includeHeaders": "true",
        "startingTimestamp": "1769817600000",
        "startingOffsetsByTimestampStrategy": "latest",
    }


def test_a_range_begins_where_a_stream_does_unless_that_moves() -> None:
    assert bounded({"startingOffsets": "latest", "group.id": "g", "subscribe": "t"}, {}) == {"subscribe": "t"}
    assert bounded({"startingTimestamp": "5"}, {}) == {"startingTimestamp": "5"}
    assert bounded({"startingTimestamp": "5"}, starting("earliest")) == {"startingOffsets": "earliest"}
    assert ending("1970-01-01T00:00:01Z") == ending("1000") == {"endingTimestamp": "1000"}
    with pytest.raises(ConfigError, match="--to='soon'"):
        ending("soon")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sinc": {}}, "did you mean sink"),
        ({"sink": {"format": "parquet"}}, "needs a path"),
        ({"sink": {"format": "topic", "path": "x"}}, "has no path"),
        ({"sink": {"format": "csv"}}, "parquet or delta or iceberg or landing or topic or console"),
        ({"sink": {"format": "console", "pth": "x"}}, "did you mean path"),
        ({"sink": {"format": "console", "compact_after": -1}}, "a whole number from 0 on"),
        ({"source": {}}, "is empty"),
        ({"source": "orders"}, "a section"),
        ({"decode": {"format": "xml"}}, "binary or text or json"),
        ({"decode": {"format": "string", "schema": "a int"}}, "text has none"),
        ({"decode": {"format": "avro"}}, "a schema, a schema_file, or a registry"),
        ({"decode": {"format": "protobuf", "schema_file": "x"}}, "a message's name"),
        ({"decode": {"format": "string"}, "dead_letters": {"path": "x"}}, "text always can"),
        ({"decode": {"format": "json"}, "dead_letters": {}}, "a path or a topic"),
        ({"transform": {"python": "function"}}, "module:function"),
        ({"transform": {"arrow": "a:b"}}, "arrow_schema go together"),
        ({"sink": {"format": "landing", "path": "x"}, "transform": {"sql": "select 1"}}, "is raw"),
        (
            {
                "source": {**GOOD["source"], "failOnDataLoss": False},
                "sink": {"format": "parquet", "path": "x"},
            },
            "could not tell a topic",
        ),
        ({"window": {"duration": "1 minute"}}, "needs a duration"),
        ({"window": {**WINDOW, "emit": "closed"}}, "needs a watermark"),
        ({"window": {**WINDOW, "emit": "late"}}, "updates or closed"),
        (
            {"window": WINDOW, "sink": {"format": "parquet", "path": "x", "partition_by": ["key"]}},
            "partitioned by date and group_by",
        ),
    ],
)
def test_wrong_forms_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PipelineForm.of({**GOOD, **change})
