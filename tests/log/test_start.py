"""A broker starts, takes format 2 and serves it before Numba is loaded: that import alone takes longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.log.record_sets import batch, values

PROGRAM = """
import sys
from pathlib import Path
from ottla.log.log_config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.validation import checked
directory = LogDirectory.open(Path(sys.argv[1]), lambda topic, partition: LogConfig(), 1)
log = directory.logs.get(("t", 0)) or directory.create("t", 0, LogConfig(), 1)
log.append(checked(bytes.fromhex(sys.argv[2]), log.config, 1), 1)
log.write_staged()
assert log.read_cached(0, 1000) == log.read(0, 1000) != b""
directory.close()
heavy = {"numba", "numpy", "pyarrow", "llvmlite"} & set(sys.modules)
sys.exit(f"loaded {heavy}" if heavy else 0)
"""


def test_append_fetch_and_a_clean_restart_load_no_kernels(tmp_path: Path) -> None:
    data = batch(*values(0, 2)).hex()
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), data], capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stderr) == (0, "")
