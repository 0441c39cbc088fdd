"""Programs of tests that run with other packages than ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def said_by(packages: Path, program: str, *arguments: str) -> Any:
    """What a program says that runs with other packages."""
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    for name in ("PYSPARK_PYTHON", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS"):  # of the Spark that is tested
        environment.pop(name, None)
    command = [sys.executable, program, *arguments]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
