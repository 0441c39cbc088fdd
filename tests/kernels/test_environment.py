"""Whatever a machine lacks, import works and records come out right: Numba, a cache, the CPU's instruction.

Each test is a process of its own. As root, permissions do not bind; so the right to ignore them is given up
before the process starts.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.kernels.cache import source_digest
from tests.naive.record_set import batch, record
from tests.scale import nightly

SOURCE = Path(__file__).parents[2] / "src"

# Encodes and decodes again; prints one line if that worked.
ROUND_TRIP = """
import pyarrow as pa
from ottla.records.builder import encode
from ottla.records.compression import Codec
from ottla.records.reader import decode
from ottla.records.hashes import java_hash_column, murmur2_column

headers = pa.array(
    [[{"key": "h", "value": b"x"}, {"key": "", "value": None}] * (n % 2) for n in range(500)],
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
)
columns = pa.record_batch({
    "timestamp": pa.array(range(500), pa.timestamp("ms", tz="UTC")),
    "key": pa.array([None if n % 3 == 0 else b"key-%d" % n for n in range(500)], pa.binary()),
    "value": pa.array([None if n % 7 == 0 else b"v" * n for n in range(500)], pa.binary()),
    "headers": headers,
})

def check(magic, codec):
    sent = columns if magic == 2 else columns.drop_columns("headers")
    names = [name for name in sent.schema.names if magic > 0 or name != "timestamp"]
    data = b"".join(encode(sent, magic=magic, codec=codec, batch_bytes=9000))
    decoded = decode(data, headers=magic == 2)
    assert decoded.damage is None and decoded.next_offset == 500, decoded
    for name in names:
        assert decoded.batch.column(name).to_pylist() == sent.column(name).to_pylist(), (magic, codec, name)

FORMATS
assert murmur2_column(pa.array([b"21", None])).to_pylist() == [-973932308, None]
assert java_hash_column(pa.array(["hello", None])).to_pylist() == [99162322, None]
print("round trip")
"""
ALL_FORMATS = ROUND_TRIP.replace(
    "FORMATS",
    "for magic in (0, 1, 2):\n    for codec in Codec:\n        if magic == 2 or codec is not Codec.ZSTD:\n"
    "            check(magic, codec)",
)
# Every kernel that is not cached has to be compiled, so this needs only two of them.
FORMAT_2_ONLY = """
from ottla.kernels import kernel
from ottla.records.reader import decode
data = bytes.fromhex(DATA)
assert decode(data).batch.column("value").to_pylist() == [b"v"]
print("round trip")
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PYTHONPATH": str(SOURCE), "OTTLA_KERNELS": "compiled", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=_obey_permissions,
    )


def _obey_permissions() -> None:
    pr_capbset_drop, cap_dac_override = 24, 1
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0)


def assert_round_trip(result: subprocess.CompletedProcess[str], errors: str = "") -> None:
    assert (result.stdout.strip(), result.stderr, result.returncode) == ("round trip", errors, 0)


@pytest.fixture(scope="module")
def small_decode() -> str:
    """A program that decodes a batch of one record."""
    return FORMAT_2_ONLY.replace("DATA", repr(batch([record(0, b"k", b"v")]).hex()))


# ---- without Numba


def test_all_formats_and_codecs_by_numpy_on_request() -> None:
    code = ALL_FORMATS + "import sys\nassert 'numba' not in sys.modules"
    assert_round_trip(run(code, OTTLA_KERNELS="numpy", PYTHONWARNINGS="error"))


WITHOUT_NUMBA = """
import importlib.abc, logging, sys

class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ERROR("no " + name)

sys.meta_path.insert(0, Broken())
from ottla import kernels
from ottla.kernels import tiers
tiers.PAYS_AFTER_S = 0
logging.basicConfig(format="%(message)s", stream=sys.stderr)
"""


@pytest.mark.parametrize(
    "error",
    ["ImportError", "SystemError"],
)
def test_numba_that_is_missing_or_broken_costs_one_warning(error: str) -> None:
    code = WITHOUT_NUMBA.replace("ERROR", error) + ALL_FORMATS + "tiers.TIERS._preparation.join()"
    result = run(code, OTTLA_KERNELS="auto")
    warning, *more = result.stderr.splitlines()
    assert (result.stdout.strip(), more, result.returncode) == ("round trip", [], 0)
    assert f"without compiled kernels (ImportError: {error}: no numba)" in warning


def test_the_numpy_path_imports_neither_numba_nor_arrow() -> None:
    code = (
        "import sys, ottla.kernels.numpy_path\n"
        "assert not {'numba', 'llvmlite', 'pyarrow'} & set(sys.modules)\nprint('round trip')"
    )
    assert_round_trip(run(code, OTTLA_KERNELS="numpy"))


# ---- with Numba, but little else


def test_another_installation_of_the_same_version_has_a_cache_of_its_own(tmp_path: Path) -> None:
    """Numba finds nothing in the cache of the other: a process that thinks it is filled would compile all."""
    shutil.copytree(SOURCE / "ottla/kernels", tmp_path / "kernels")
    shutil.copytree(SOURCE / "ottla/model", tmp_path / "model")

    def digest() -> str:
        copy = runpy.run_path(str(tmp_path / "kernels/cache.py"))
        return str(copy["source_digest"]())

    first = digest()
    assert digest() == first != source_digest()
    os.utime(tmp_path / "kernels/varint.py", (1, 1))
    assert digest() != first


@pytest.fixture
def read_only_home(tmp_path: Path) -> Iterator[Path]:
    tmp_path.chmod(0o555)
    yield tmp_path
    tmp_path.chmod(0o755)


NO_CACHE = "assert kernel.CACHE_DIRECTORY is None, kernel.CACHE_DIRECTORY\n"


@nightly("compiles for seconds, as the next one does")
def test_no_cache_directory_is_writable(read_only_home: Path, small_decode: str) -> None:
    """Kernels are compiled anew, and that is all."""
    home = str(read_only_home)
    settled = f"import tempfile\ntempfile.tempdir = {home!r}\n"
    result = run(settled + small_decode + NO_CACHE, HOME=home, XDG_CACHE_HOME=home + "/x", TMPDIR=home)
    assert_round_trip(result)


def test_there_is_no_temporary_directory_at_all(read_only_home: Path, small_decode: str) -> None:
    """Python then raises when it is asked for one."""
    home = str(read_only_home)
    nowhere = f"import tempfile\ntempfile._candidate_tempdir_list = lambda: [{home!r}]\n"
    result = run(nowhere + small_decode + NO_CACHE, HOME=home, XDG_CACHE_HOME=home + "/x", TMPDIR=home)
    assert_round_trip(result)


@nightly("compiles for seconds")
def test_a_package_that_cannot_be_written_to(tmp_path: Path, small_decode: str) -> None:
    """Nothing is kept beside the source; machine code goes to the user's cache."""
    package = tmp_path / "site-packages"
    shutil.copytree(SOURCE / "ottla", package / "ottla", ignore=shutil.ignore_patterns("__pycache__"))
    folders = [path for path in package.rglob("*") if path.is_dir()]
    for path in [*folders, package]:
        path.chmod(0o555)
    before = sorted(package.rglob("*"))
    check = f"import ottla\nassert ottla.__file__.startswith({str(package)!r})\n"
    try:
        cache = tmp_path / "cache"
        assert_round_trip(run(check + small_decode, PYTHONPATH=str(package), XDG_CACHE_HOME=str(cache)))
        assert sorted(package.rglob("*")) == before
        assert list(cache.rglob("*.nbc"))
    finally:
        for path in [*folders, package]:
            path.chmod(0o755)


@nightly("compiles for seconds")
def test_a_cpu_that_numba_is_told_to_know_nothing_about(small_decode: str) -> None:
    """LLVM would abort the process if a kernel used an instruction of the real one."""
    check = "from ottla.kernels import layout, path\nassert path().VERIFY == layout.VERIFY_LATER\n"
    assert_round_trip(run(small_decode + check, NUMBA_CPU_NAME="generic"))
