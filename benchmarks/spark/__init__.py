"""Spark over topics beside Spark's own connector: `python -m benchmarks spark`, or a part by name."""

from benchmarks.spark import cases as cases
from benchmarks.spark import streams as streams
