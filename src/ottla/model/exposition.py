"""Prometheus' text format, version 0.0.4: families of samples as the lines that a scrape reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]
Samples = Iterable[tuple[Labels, float]]


class Metric(NamedTuple):
    """A metric with its samples."""

    name: str
    kind: str
    text: str
    samples: Samples


def exposition(metrics: Iterable[Metric]) -> str:
    """The metrics as text."""
    return "".join(line for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.text}\n# TYPE {metric.name} {metric.kind}\n"
    for labels, value in metric.samples:
        pairs = ",".join(f'{name}="{_escaped(str(label))}"' for name, label in labels.items())
        yield f"{metric.name}{{{pairs}}} {value}\n" if pairs else f"{metric.name} {value}\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
