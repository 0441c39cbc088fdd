"""What the documents say is true: code blocks run, tables are current, names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from tests.zookeeper.conftest import require_server

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()))
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("block", BLOCKS)
def test_code_block_runs_on_its_own(block: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", block], capture_output=True, text=True, timeout=290, check=False
    )
    assert run.returncode == 0, run.stderr


def test_readme_has_code_blocks() -> None:
    assert len(BLOCK.findall((ROOT / "README.md").read_text())) >= 3


PRINTED = re.compile(r"^ *print\(.*?\)\s+# (.*)$", re.MULTILINE)
TOLD = [block for block in BLOCK.findall((ROOT / "README.md").read_text()) if PRINTED.search(block)]


@pytest.mark.parametrize("block", TOLD)
def test_readme_tells_what_its_blocks_print(block: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stdout.splitlines() == PRINTED.findall(block)


@pytest.mark.timeout(600)
def test_the_demo_runs() -> None:
    require_server()
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("every check held\n")
    assert (ROOT / "build" / "demo" / "lag.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", ["protocol_support", "broker_settings"])
def test_tables_are_made_from_the_source(name: str) -> None:
    made = subprocess.run(
        [sys.executable, f"tools/{name}.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    page = ROOT / "docs" / f"{name.replace('_', '-')}.md"
    assert made.stdout == page.read_text(), f"python tools/{name}.py > {page.relative_to(ROOT)}"


def test_public_surface_is_what_was_decided() -> None:
    assert sorted(ottla.__all__) == [
        "Admin",
        "ConfigError",
        "CorruptRecord",
        "EmbeddedBroker",
        "GroupConsumer",
        "KafkaError",
        "LocalProtocolError",
        "OffsetLedger",
        "OttlaError",
        "PartitionConsumer",
        "Producer",
        "RemoteProtocolError",
        "SimpleConsumer",
        "StorageError",
        "TopicAndPartition",
        "__version__",
        "replay",
    ]
    assert all(hasattr(ottla, name) for name in ottla.__all__)


def test_importing_the_package_is_light() -> None:
    """Command lines and test plugins import it: no arrays, no compiler, no broker."""
    heavy = "[m for m in ('numpy', 'pyarrow', 'numba', 'asyncio', 'ottla.broker') if m in sys.modules]"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, ottla; print({heavy})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


def test_version_is_the_same_everywhere() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{ottla.__version__}"' in project
