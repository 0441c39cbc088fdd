"""`ottla broker start` as its users have it: a process, its lines, its exit code, and its data afterwards."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from tests.blocking_client import BlockingClient
from tests.broker.real_clients import read, send

OTTLA = [sys.executable, "-m", "ottla"]
CLEAN_MARK = ".kafka_cleanshutdown"
WAIT_S = 60
VALUES = [b"%d" % number for number in range(10)]


class Started:
    """A broker that runs as a process."""

    def __init__(self, arguments: Sequence[str], command: Sequence[str] = OTTLA) -> None:
        self.process = subprocess.Popen(
            [*command, "broker", "start", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    @property
    def bootstrap(self) -> str:
        return self.line.removeprefix("listening on ").strip()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; the exit code and what was written to standard error."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=WAIT_S)
        assert output == ""
        return self.process.returncode, errors

    def metadata(self) -> MetadataResponse:
        host, _, port = self.bootstrap.split(",")[0].rpartition(":")
        with BlockingClient(host.strip("[]"), int(port)) as client:
            return client.call(MetadataRequest(topics=None))


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    """Starts brokers, and ends what is left of them."""
    made: list[Started] = []

    def start(*arguments: object, command: Sequence[str] = OTTLA) -> Started:
        made.append(Started([str(one) for one in arguments], command))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.communicate(timeout=WAIT_S)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="/proc tells what a process has loaded")
def test_a_broker_takes_and_serves_records_without_numpy(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    """Loading it would take a third of the start."""
    broker = start("--port", 0, "--data-dir", tmp_path)
    send(broker.bootstrap, "events", VALUES)
    assert read(broker.bootstrap, "events", len(VALUES)) == VALUES
    loaded = Path(f"/proc/{broker.process.pid}/maps").read_text()
    assert "python" in loaded
    assert "numpy" not in loaded


def refused(*arguments: object) -> str:
    """The one line of a broker that does not start."""
    run = subprocess.run(
        [*OTTLA, "broker", "start", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, ""), run.stderr
    assert run.stderr.startswith("ottla: ")
    assert run.stderr.count("\n") == 1
    return run.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_leaves_the_data_in_order(
    start: Callable[..., Started], tmp_path: Path, number: signal.Signals
) -> None:
    broker = start("--port", 0, "--data-dir", tmp_path / "data")
    assert re.fullmatch(r"listening on 127\.0\.0\.1:\d+\n", broker.line)
    assert send(broker.bootstrap, "events", VALUES) == list(range(10))
    assert not (tmp_path / "data" / CLEAN_MARK).exists()
    assert broker.end(number) == (0, "")
    assert (tmp_path / "data" / CLEAN_MARK).exists()
    again = start("--port", 0, "--data-dir", tmp_path / "data")
    assert read(again.bootstrap, "events", 10) == VALUES
    assert again.end(signal.SIGTERM) == (0, "")


def test_a_signal_ends_it_while_clients_wait(start: Callable[..., Started], tmp_path: Path) -> None:
    broker = start("--port", 0, "--data-dir", tmp_path)
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port))) as silent:
        assert broker.end(signal.SIGTERM) == (0, "")
        assert silent.recv(1) == b""


def test_the_script_is_the_module(start: Callable[..., Started], tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("ottla")
    broker = start("--port", 0, "--data-dir", tmp_path, command=[str(script)])
    assert len(broker.metadata().brokers) == 1
    assert broker.end(signal.SIGTERM) == (0, "")


def test_several_brokers_of_one_process(start: Callable[..., Started], tmp_path: Path) -> None:
    broker = start("--port", 0, "--data-dir", tmp_path, "--brokers", 3)
    told = {f"{one.host}:{one.port}" for one in broker.metadata().brokers}
    assert told == set(broker.bootstrap.split(","))
    assert len(told) == 3
    assert broker.end(signal.SIGTERM) == (0, "")


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for first in range(20_000, 32_000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for number, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + number))
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
        return first
    pytest.fail("no free ports")


def test_several_brokers_have_ports_in_a_row(start: Callable[..., Started], tmp_path: Path) -> None:
    first = free_ports(3)
    broker = start("--port", first, "--data-dir", tmp_path, "--brokers", 3)
    assert broker.bootstrap == ",".join(f"127.0.0.1:{first + number}" for number in range(3))


# --- settings


def test_a_server_properties_of_kafka_does(start: Callable[..., Started], tmp_path: Path) -> None:
    """The lines of Kafka's own example that matter, and one that means nothing here."""
    path = tmp_path / "server.properties"
    path.write_text(
        "# The id of the broker\n"
        "broker.id=4\n"
        "listeners=PLAINTEXT://127.0.0.1:0\n"
        "num.network.threads=3\n"
        f"log.dirs={tmp_path / 'data'}\n"
        "num.partitions=2\n"
    )
    broker = start("--config", path)
    assert [one.node_id for one in broker.metadata().brokers] == [4]
    send(broker.bootstrap, "events", VALUES, partition=1)
    code, errors = broker.end(signal.SIGTERM)
    assert code == 0
    assert errors == "ottla: num.network.threads has no meaning for this broker and is ignored\n"
    assert (tmp_path / "data" / "events-1").is_dir()


def test_options_go_before_set_before_the_file(start: Callable[..., Started], tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        f"broker.id=4\nnum.partitions=2\nlisteners=PLAINTEXT://127.0.0.1:1\nlog.dirs={tmp_path / 'no'}\n"
    )
    arguments = ["--config", path, "--port", 0, "--data-dir", tmp_path / "data"]
    broker = start(*arguments, "--set", "broker.id=5", "--set", "log.dirs=/nowhere")
    assert [one.node_id for one in broker.metadata().brokers] == [5]
    send(broker.bootstrap, "events", VALUES, partition=1)
    broker.end(signal.SIGTERM)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "server.properties"]


def test_the_form_of_listeners_in_old_files_is_read(start: Callable[..., Started], tmp_path: Path) -> None:
    port = free_ports(1)
    path = tmp_path / "server.properties"
    path.write_text(f"host.name=127.0.0.1\nport={port}\nlog.dir={tmp_path / 'data'}\n")
    assert start("--config", path).bootstrap == f"127.0.0.1:{port}"


def test_an_option_changes_its_part_of_the_address(start: Callable[..., Started], tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"listeners=PLAINTEXT://localhost:1\nlog.dir={tmp_path / 'data'}\n")
    assert re.fullmatch(r"localhost:\d+", start("--config", path, "--port", 0).bootstrap)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_has_brackets(start: Callable[..., Started], tmp_path: Path) -> None:
    broker = start("--host", "::1", "--port", 0, "--data-dir", tmp_path)
    assert re.fullmatch(r"\[::1\]:\d+", broker.bootstrap)
    assert broker.metadata().brokers[0].host == "::1"
    assert send(broker.bootstrap, "events", VALUES) == list(range(10))


def test_metrics_are_served_where_asked(start: Callable[..., Started], tmp_path: Path) -> None:
    port = free_ports(1)
    start("--port", 0, "--data-dir", tmp_path, "--metrics-port", port)
    connection = HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200
    assert b"ottla_" in answer.read()
    connection.close()


# --- what is wrong


def test_errors_are_one_line(start: Callable[..., Started], tmp_path: Path) -> None:
    running = start("--port", 0, "--data-dir", tmp_path / "data")
    port = running.bootstrap.rpartition(":")[2]
    here = ["--data-dir", tmp_path / "other", "--port", 0]
    assert "where shall the data be? Give --data-dir" in refused("--port", 0)
    taken = refused(*here[:2], "--port", port)
    assert f"broker 0 cannot listen on 127.0.0.1:{port}: Address already in use: another program" in taken
    assert "with a port up to 65535" in refused(*here[:2], "--port", 99999)
    assert "in use by another broker" in refused("--data-dir", tmp_path / "data", "--port", 0)
    assert "--set num.partitions: NAME=VALUE is wanted" in refused(*here, "--set", "num.partitions")
    assert "did you mean num.partitions" in refused(*here, "--set", "num.partition=1")
    assert "num.partitions=none" in refused(*here, "--set", "num.partitions=none")
    assert "nowhere.properties cannot be read" in refused(*here, "--config", "nowhere.properties")
    assert "brokers=0: at least one is needed" in refused(*here, "--brokers", 0)
    assert "advertised.listeners" in refused(*here, "--host", "0.0.0.0")
    (tmp_path / "file").write_text("")
    assert "cannot use it as data directory" in refused("--data-dir", tmp_path / "file", "--port", 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "cannot" in refused("--data-dir", tmp_path / "closed" / "data", "--port", 0)


def test_an_open_address_must_be_asked_for_twice(tmp_path: Path) -> None:
    """192.0.2.1 is for documentation: no machine has it, so that nothing is opened here."""
    there = ("--host", "192.0.2.1", "--data-dir", str(tmp_path))
    assert "listeners=PLAINTEXT://192.0.2.1:9092: any client that reaches" in refused(*there)
    run = subprocess.run(
        [*OTTLA, "broker", "start", *there, "--set", "ottla.allow.open.listeners=true"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert run.returncode == 1
    warning, error = run.stderr.splitlines()
    assert "listening on 192.0.2.1 without a login" in warning
    assert error.startswith("ottla: broker 0 cannot listen on 192.0.2.1:9092")


@pytest.mark.parametrize("arguments", [[], ["broker"], ["broker", "start", "--port", "x"]])
def test_wrong_usage_shows_the_right_one(arguments: list[str]) -> None:
    run = subprocess.run([*OTTLA, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("usage: ottla")


def test_help_says_what_it_is() -> None:
    run = subprocess.run(
        [*OTTLA, "broker", "start", "--help"], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    text = " ".join(run.stdout.split())
    assert "Start a Kafka broker on 127.0.0.1. It keeps one copy of the data: no replication." in text
