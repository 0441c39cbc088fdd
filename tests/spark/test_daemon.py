"""Workers of tasks are forked by a daemon that has imported what they need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.spark.daemon import PRELOADED


def test_workers_begin_with_our_modules_and_random_numbers_of_their_own(spark: Any) -> None:
    def look(_: Iterable[int]) -> Iterator[tuple[int, list[str], float]]:
        import numpy as np
        from pyspark import BarrierTaskContext

        imported = [name for name in PRELOADED if name in sys.modules]
        BarrierTaskContext.get().barrier()  # so two workers run
        yield os.getpid(), imported, float(np.random.random())

    first, second = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(look).collect()
    assert first[0] != second[0]
    assert first[1] == second[1] == list(PRELOADED)
    assert first[2] != second[2]
