"""The tests of kernels and records again, without a compiler: kernels as plain Python, and the NumPy path.

The environment decides at import which of them serves, so each runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale import nightly

ROOT = Path(__file__).parents[2]
LEFT_OUT = [
    # These call no kernel, or start processes with an environment of their own.
    "tests/kernels/test_environment.py",
    "tests/kernels/test_other_paths.py",
    "tests/records/test_codec_framing.py",
    "tests/records/test_compression.py",
    "tests/records/test_compression_limits.py",
    # These compare the NumPy path with the compiled kernels.
    "tests/kernels/test_numpy_path.py",
    "tests/kernels/test_numpy_writing.py",
]
PLAIN_PYTHON, NUMPY = {"NUMBA_DISABLE_JIT": "1"}, {"OTTLA_KERNELS": "numpy"}

pytestmark = [pytest.mark.each_alone, pytest.mark.timeout(1200)]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(PLAIN_PYTHON, id="plain Python", marks=nightly("kernels in plain Python are slow")),
        pytest.param(NUMPY, id="NumPy", marks=nightly("the broker of every test runs on it")),
    ],
)
def test_kernels_and_records_pass_without_a_compiler(settings: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--ignore={file}" for file in LEFT_OUT]
    # A run inside of a run: it must not take itself for one of the outer run's processes.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = subprocess.run(
        [*command, "tests/kernels", "tests/records"],
        cwd=ROOT,
        env={**environment, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
