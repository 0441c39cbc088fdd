"""NumPy serves first, the compiled kernels when they pay; nobody waits for them.

Each test is a process of its own, with a cache of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.kernels import kernel
from ottla.kernels.cache import progress_file

pytestmark = pytest.mark.skipif(not kernel.JIT, reason="there is nothing to compile with")

FIRST_PROGRAM = """
import sys
from ottla import EmbeddedBroker, Producer, replay
with EmbeddedBroker() as broker:
    broker.create_topic("events")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(3):
            producer.send("events", b"%d" % number).result(60)
    records = replay("events", bootstrap_servers=broker.bootstrap).messages()
    assert [message.value for message in records] == [b"0", b"1", b"2"]
print(*{"numba", "pyarrow.compute", "numpy.ma"} & set(sys.modules))
"""

STEADY_WORK = """
import pyarrow as pa
from ottla import kernels
from ottla.kernels import tiers
from ottla.records.builder import encode
from ottla.records.reader import decode
tiers.PAYS_AFTER_S = 0
headers = pa.array([[("name", b"value")]] * 5, pa.map_(pa.string(), pa.binary()))
columns = pa.table({"value": pa.array([b"value"] * 5, pa.binary()), "headers": headers})

def work():
    decoded = decode(b"".join(encode(columns)), headers=True)
    assert decoded.batch.column("value").to_pylist() == [b"value"] * 5

work()
"""
UNTIL_TAKEN_OVER = """
while tiers.TIERS._preparation.is_alive():
    work()
work()
print(kernels.path().__name__)
"""

EVERY_WAY_TO_CALL = """
import pyarrow as pa
from ottla import EmbeddedBroker, Producer, replay
from ottla.kernels import compiled
from ottla.kernels.signatures import SIGNATURES
from ottla.records.builder import encode
from ottla.records.entries import read_only, scan
from ottla.records.hashes import java_hash_column, murmur2_column
from ottla.records.reader import decode

columns = pa.table({"key": [b"key", None], "value": [b"value", None]})
headers = columns.append_column("headers", pa.array([[("n", b"v")], []], pa.map_(pa.string(), pa.binary())))
for magic, table in ((0, columns), (1, columns), (2, columns), (2, headers)):
    for data in (b"".join(encode(table, magic=magic)), bytearray(b"".join(encode(table, magic=magic)))):
        decode(data)
        decode(data, headers=True)
        scan(read_only(data), verify_crc=True).cut(0, None)
decode(b"".join(encode(columns, codec="lz4")))
from ottla import Schema
words = Schema.avro({"type": "array", "items": "string"})
words.decode(pa.array([words.value(["tea", "cake"])] * 9, pa.binary()))
words.decode(pa.array([words.value([])], pa.binary()))
murmur2_column(columns["key"])
java_hash_column(pa.array(["topic"]))
with EmbeddedBroker() as broker:
    broker.create_topic("events", 2)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send_batch("events", headers.slice(0, 1)).result(60)
        keyed = pa.table({"key": [b"%d" % row for row in range(9999)], "value": [b"v" * 99] * 9999})
        producer.send_batch("events", keyed).result(60)
        producer.send("events", b"value", b"key").result(60)
    assert len(list(replay("events", bootstrap_servers=broker.bootstrap).messages())) == 10001

for name, signatures in SIGNATURES.items():
    used = {str(types) for types in getattr(compiled, name).signatures}
    assert used == {str(types) for types in signatures}, (name, used)
"""


def run(program: str, cache: Path | None = None, mode: str = "auto") -> str:
    environment = os.environ | {"OTTLA_KERNELS": mode, "PYTHONPATH": os.pathsep.join(sys.path)}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert not done.stderr, done.stderr
    assert done.returncode == 0
    return done.stdout


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A copy of the cache that this run has filled."""
    assert kernel.CACHE_DIRECTORY is not None
    shutil.copytree(kernel.CACHE_DIRECTORY, tmp_path / kernel.CACHE_DIRECTORY.name)
    return tmp_path


def test_a_small_program_loads_nothing_that_it_does_not_need() -> None:
    """Numba takes half a second to load, and the others some 50 ms each."""
    assert run(FIRST_PROGRAM) == "\n"


def test_steady_work_is_taken_over_by_compiled_kernels_from_the_cache(cache: Path) -> None:
    assert run(STEADY_WORK + UNTIL_TAKEN_OVER, cache) == "ottla.kernels.compiled\n"


def test_a_process_of_its_own_fills_a_cache_that_is_not_complete(cache: Path) -> None:
    """Machine code is left in the cache, so that this takes no minute; the process still goes over all."""
    progress = progress_file(cache / Path(str(kernel.CACHE_DIRECTORY)).name)
    names = progress.read_text().split()
    progress.write_text("scan_entries\nsumma")
    assert run(STEADY_WORK + UNTIL_TAKEN_OVER, cache) == "ottla.kernels.compiled\n"
    assert sorted({*progress.read_text().split()} - {"summa"}) == sorted(names)


def test_kernels_are_compiled_for_exactly_the_types_that_they_are_called_with() -> None:
    run(EVERY_WAY_TO_CALL, mode="compiled")


def test_the_end_of_a_program_does_not_wait_for_compilation(tmp_path: Path) -> None:
    """It ends while another process compiles all kernels into an empty cache."""
    run(STEADY_WORK + "assert tiers.TIERS._preparation.is_alive()", tmp_path)


def test_a_forked_process_goes_on(cache: Path) -> None:
    fork = "import os\nif child := os.fork(): assert os.waitpid(child, 0)[1] == 0\nwork()\n"
    assert run(STEADY_WORK + fork + UNTIL_TAKEN_OVER, cache) == "ottla.kernels.compiled\n" * 2


def test_another_choice_meanwhile_stays(cache: Path) -> None:
    """The thread put compiled kernels into the module of the NumPy ones."""
    choice = """
from ottla.kernels import numpy_path
before, thread = dict(vars(numpy_path)), tiers.TIERS._preparation
kernels.use("numpy")
thread.join()
assert kernels.path() is numpy_path
assert vars(numpy_path) == before
"""
    run(STEADY_WORK + choice, cache)


def test_a_program_that_ignores_its_children_sees_the_end_of_the_compiler(cache: Path) -> None:
    """It was taken for a failure, if it came before the next look at the cache."""
    program = """
import signal
from ottla.kernels.tiers import _Compiler
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
compiler = _Compiler(["no such kernel"])
while compiler.is_running():
    pass
"""
    run(program, cache)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(AssertionError, match="OTTLA_KERNELS='fast' is none of auto, compiled, numpy"):
        run("import ottla.records.reader", mode="fast")
