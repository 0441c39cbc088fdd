"""What the documents say is true: code blocks run, tables are current, names exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla
from ottla.cli.kafka import flags, tool
from ottla.cli.main import main
from tests.page_blocks import SPARK_PAGES, page_blocks
from tests.real_servers import require_zookeeper
from tests.scale import nightly

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python(?: .*)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*?\)\s+# (.*)$", re.MULTILINE)
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
RUN_BLOCKS = """
import json, sys, warnings
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"kafka\\.")  # kafka-python's own
for number, block in enumerate(json.load(sys.stdin)):
    code = compile(block, f"block {number} of the page", "exec")
    exec(code, {"__name__": "__main__"})
    print(end="\\f", flush=True)
"""
"""Blocks share a process, for its start takes longer than most blocks, and nothing else."""
HERE = "127.0.0.1:9092"
WITH_A_BROKER = {"migration.md"}
"""Pages whose blocks expect one at `HERE`."""
FOLLOWED = {"start.md", *SPARK_PAGES}
"""Pages that `test_followed_pages` and `spark/test_pages` run."""


@pytest.mark.each_alone
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if BLOCK.search(page.read_text()) and page.name not in FOLLOWED],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_code_blocks_of_a_page_run(page: Path) -> None:
    """On README.md, comments behind `print` are what it prints."""
    blocks = BLOCK.findall(page.read_text())
    with ExitStack() as opened:
        if page.name in WITH_A_BROKER:
            broker = opened.enter_context(ottla.EmbeddedBroker())
            blocks = [block.replace(HERE, broker.bootstrap) for block in blocks]
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", RUN_BLOCKS],
            input=json.dumps(blocks),
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    *printed, rest = run.stdout.split("\f")
    assert (len(printed), rest) == (len(blocks), "")
    if page == README:
        for block, lines in zip(blocks, printed, strict=True):
            promised = PRINTED.findall(block)
            assert not promised or lines.splitlines() == promised


def test_the_readme_fits_a_page() -> None:
    """What, one picture, install, four examples of at most 15 lines, a table of parts, what it is not."""
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    assert text.count("![") == 1
    examples = page_blocks("../README.md", "In 60 seconds")
    assert [block.language for block in examples] == ["python", "python", "python", "sh", "py"]
    assert all(len(block.text.splitlines()) <= 15 for block in examples)
    assert {"What do you want to do?", "What it is not"} <= set(re.findall(r"^## (.*)$", text, re.MULTILINE))


@pytest.mark.each_alone
@pytest.mark.timeout(1200)
def test_the_demo_runs() -> None:
    """As `make demo` does, but its events come within 6 seconds."""
    require_zookeeper()
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", "from examples.demo.__main__ import main; main(6)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("every check held\n")
    assert (ROOT / "build" / "demo" / "lag.png").read_bytes().startswith(b"\x89PNG")


@nightly("the demo with Java runs the same parts")
def test_the_demo_without_java_runs_what_it_can(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    paths = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", "from examples.demo.__main__ import main; main(2)"],
        cwd=tmp_path,
        env={**environment, "PATH": str(tmp_path), "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    (told,) = [line for line in run.stdout.splitlines() if line.startswith("left out")]
    assert (
        "the classic group and the pipeline on Spark: ZooKeeper runs on Java and there is none here" in told
    )
    assert "ads-modern   every event was read" in run.stdout
    assert run.stdout.endswith("every check held\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    ("name", "page_name"),
    [
        ("protocol_support", "protocol-support.md"),
        ("broker_settings", "broker-settings.md"),
        ("state_diagrams", "state-machines.md"),
    ],
)
def test_pages_are_made_from_the_source(name: str, page_name: str) -> None:
    made = subprocess.run(
        [sys.executable, f"tools/{name}.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    page = ROOT / "docs" / page_name
    assert made.stdout == page.read_text(), f"python tools/{name}.py > {page.relative_to(ROOT)}"


def test_public_surface_is_what_was_decided() -> None:
    """Besides the errors, which `test_public_names` proves to be all there."""
    errors = {name for name in ottla.__all__ if is_error(getattr(ottla, name))}
    assert sorted(set(ottla.__all__) - errors) == [
        "Admin",
        "BatchDelivery",
        "Blacklist",
        "BrokerSecurity",
        "Code",
        "ConsumerConnector",
        "ConsumerRebalanceListener",
        "Delivery",
        "EmbeddedBroker",
        "FetchRequestBuilder",
        "GroupConsumer",
        "GroupMetadata",
        "Health",
        "KafkaStream",
        "LeaderConsumer",
        "Mirror",
        "OffsetAndMetadata",
        "OffsetLedger",
        "OffsetSpec",
        "PartitionConsumer",
        "PartitionReader",
        "Producer",
        "RebalanceListener",
        "RecordMetadata",
        "Replay",
        "Scan",
        "Schema",
        "ShareConsumer",
        "SimpleConsumer",
        "TopicAndPartition",
        "Whitelist",
        "__version__",
        "replay",
        "scan",
        "sql",
    ]


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def test_version_is_the_same_everywhere() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{ottla.__version__}"' in project


COMMANDS = {
    shlex.join(shlex.split(command))
    for page in PAGES
    for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for command in re.findall(r"^(?:\$ |echo \w+ \| )?(ottla [^#&\n]+)", block, re.MULTILINE)
}


class Parsed(Exception):
    """The arguments are good. Nothing was run."""


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_has_the_options_that_the_documents_show(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_parsing(parse: Callable[..., object]) -> Callable[..., None]:
        def parse_and_stop(*arguments: object) -> None:
            parse(*arguments)
            raise Parsed

        return parse_and_stop

    monkeypatch.setattr(ArgumentParser, "parse_args", only_parsing(ArgumentParser.parse_args))
    monkeypatch.setattr(tool, "parse", only_parsing(flags.parse))
    with pytest.raises(Parsed):
        main(shlex.split(command)[1:])


def test_make_has_the_targets_that_the_documents_show() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        shown = re.findall(r"(?:^|`)make (\w+)", page.read_text(), re.MULTILINE)
        assert set(shown) <= targets, page


def test_a_search_for_java_in_vain_is_short_and_no_failure(tmp_path: Path) -> None:
    """As root, where no package can be had: each is tried twice, and the lists are fetched once."""
    calls = tmp_path / "calls"
    programs = {
        "java": "exit 127",
        "id": "echo 0",
        "apt-get": f'echo "$*" >> {calls}; case "$*" in *update*) ;; *) exit 1;; esac',
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    run = subprocess.run(
        ["/bin/sh", ROOT / "tools" / "java.sh"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == "Java 17+ not found: trying to install it with apt\n"
    tried = calls.read_text().splitlines()
    assert [" update" in call for call in tried] == [False] * 3 + [True] + [False] * 3
    assert all("Timeout=10" in call for call in tried)
