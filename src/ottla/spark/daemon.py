"""Spark's Python daemon. It imports everything that our tasks need before it forks workers.

Spark lets a daemon fork the Python processes that run tasks, and each imports what its task needs. To read a
topic that is a CPU second of PyArrow, NumPy and compiled kernels: for each core, and again after each idle
minute. This daemon imports once, and its workers share the memory. `ottla.spark.session` sets it on one
machine. On a cluster this package has to be installed on all machines, and the setting is:

    spark.python.daemon.module=ottla.spark.daemon

Forking after these imports is safe: they leave no thread of Python running, and the libraries of PyArrow and
NumPy are made for it.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys

from ottla import kernels
from ottla.kernels import numpy_path
from ottla.kernels.cache import cache_directory, ready_kernels

log = logging.getLogger(__name__)

PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "ottla.spark.data_source",
    "ottla.spark.range_reader",
    "ottla.spark.readers",
    "ottla.spark.writer",
)


def preload() -> None:
    """Import what tasks need. A module that cannot be imported is left to the worker that needs it."""
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - other tasks may not need it
            log.warning("Spark's daemon cannot import %s: %s", name, error)
    if _are_kernels_cached():
        kernels.hasten()
    os.register_at_fork(after_in_child=_seed)
    # Garbage collection in workers then skips what is imported, and does not copy its memory pages.
    gc.collect()
    gc.freeze()


def _are_kernels_cached() -> bool:
    """Whether all kernels are compiled.

    If not, a thread would have to compile them, and this process must fork.
    """
    directory = cache_directory()
    names = {name for name in numpy_path.__all__ if callable(getattr(numpy_path, name))}
    return directory is not None and names.issubset(ready_kernels(directory))


def _seed() -> None:
    """Give a worker random numbers of its own: it inherits the state of NumPy's generator."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
