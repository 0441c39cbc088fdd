"""franz-go's kfake, built from `benchmarks/kfake` where there is Go or it can be fetched."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.broker.processes import Contender, Missing, free_port, started
from tools.peer_cache import Unavailable, go_programs

NAME = "kfake in memory"
_SOURCE = Path(__file__).parent.parent / "kfake"


@contextlib.contextmanager
def kfake() -> Iterator[Contender]:
    """kfake with its records in memory, which is its default and its fastest."""
    found = re.search(r"pkg/kfake v\S*-(\d{8})\d*-(\w{7})", (_SOURCE / "go.mod").read_text())
    version = f"{found[1]} {found[2]}" if found else ""
    try:
        program = go_programs(_SOURCE) / _SOURCE.name
    except Unavailable as error:
        yield Missing(NAME, version, str(error))
        return
    port = free_port()
    with started(NAME, version, [str(program), "-port", str(port)], port) as server:
        yield server
