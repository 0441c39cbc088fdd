"""Which tests run in one process, and which begin first.

pytest-xdist has groups of its own (`--dist loadgroup`), but it writes them into node ids, which pytest 9.2
does not allow. So the first process tells the groups to the scheduler by a file.
"""

from __future__ import annotations

import json
import os
import tempfile
from functools import cached_property
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tools.peer_cache import KAFKA_0_9, KAFKA_4, KAFKA_VERSIONS

ROOT = Path(__file__).parents[1]
GROUPS_FILE = "OTTLA_TEST_GROUPS"
"""The environment variable that names the file of groups."""
SPARK = "spark"
OWN_GROUP = "each_alone"
LONGEST_FIRST = (
    "spark",
    f"kafka {KAFKA_4}",
    "kafka's tools",
    f"kafka {KAFKA_0_9}",
    "tests/project/test_documents.py",
    "tests/compatibility/test_matrix.py",
    "tests/spark/test_exactly_once_kills.py",
    "tests/spark/test_kills.py",
    "tests/cli/test_pipeline.py",
    "tests/transactions/test_kills.py",
    "tests/kernels/test_other_paths.py",
    "tests/kernels/test_numpy_path.py",
    "tests/consumer/classic/test_mixed_groups.py",
    "tests/project/test_wheel.py",
    "tests/project/test_examples.py",
    "tests/fetching/test_real_cluster.py",
    "tests/log/test_recovery.py",
    "tests/kernels/test_environment.py",
    "tests/mirror/test_commands.py",
    "tests/mirror/test_kills.py",
)
"""Groups, or files of groups, that take long. They begin first, or in the end all wait for one process."""


class GroupScheduling(LoadScopeScheduling):
    """Hands out whole groups, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]

    @cached_property
    def _groups(self) -> dict[str, str]:
        file = Path(os.environ.pop(GROUPS_FILE))
        groups: dict[str, str] = json.loads(file.read_text())
        file.unlink()
        return groups


def make_groups_file() -> None:
    """Make the file that the first process fills; all processes inherit its name."""
    descriptor, os.environ[GROUPS_FILE] = tempfile.mkstemp(prefix="ottla-test-groups-", suffix=".json")
    os.close(descriptor)


def sort_and_group(items: list[pytest.Item], *, is_told: bool) -> None:
    """Put long groups first; the order within a group stays. With `is_told`, write the groups down."""
    groups = {item: group_of(item) for item in items}
    if is_told:
        told = {item.nodeid: group for item, group in groups.items()}
        Path(os.environ[GROUPS_FILE]).write_text(json.dumps(told))
    first_seen = {group: number for number, group in reversed([*enumerate(groups.values())])}
    ranks = {group: number - len(LONGEST_FIRST) for number, group in enumerate(LONGEST_FIRST)}
    items.sort(
        key=lambda item: (
            ranks.get(groups[item].partition("::")[0], 0),
            first_seen[groups[item]],
        )
    )


def group_of(item: pytest.Item) -> str:
    """Return the group that the test names itself, its Kafka version, Kafka's tools, Spark, or its file."""
    marker = item.get_closest_marker("xdist_group")
    if marker is not None:
        return str(marker.args[0] if marker.args else marker.kwargs["name"])
    file = item.path.relative_to(ROOT).as_posix()
    if item.get_closest_marker(OWN_GROUP) is not None:
        return f"{file}::{item.name}"
    fixtures: tuple[str, ...] = getattr(item, "fixturenames", ())
    if SPARK in fixtures:
        return SPARK
    if "new" in fixtures or "shared_old" in fixtures:
        return "kafka's tools"
    if "real_kafka" in fixtures:
        callspec = getattr(item, "callspec", None)
        values = callspec.params.values() if callspec else ()
        version = next((value for value in values if value in KAFKA_VERSIONS), "")
        return f"kafka {version}" if version else file
    return file
