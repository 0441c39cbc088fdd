"""A signal ends what serves until then, whichever thread takes it and whatever the main thread does."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from ottla import Admin, EmbeddedBroker, Producer
from ottla.cli.stop_signals import StopSignals
from ottla.consumer.classic.stream import run_streams
from tests.interruption import signal_another_thread
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_ends_no_wait_is_seen_soon(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignals() as stopped:
        assert not stopped.wait(0)
        threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), number)).start()
        waits = 0
        while not stopped.wait():
            waits += 1
        assert waits <= 2
        assert stopped.wait(0)
    assert signal.getsignal(number) is before


def test_the_console_ends_by_a_signal_that_another_thread_takes() -> None:
    command = [sys.executable, "-m", "ottla", "console", "--port", "0"]
    with (
        EmbeddedBroker() as broker,
        subprocess.Popen([*command, "-b", broker.bootstrap], stdout=subprocess.PIPE, text=True) as console,
    ):
        try:
            assert console.stdout is not None
            assert console.stdout.readline().startswith("console http://")
            signal_another_thread(console.pid, signal.SIGTERM)
            assert console.wait(PATIENCE_S) == 0
        finally:
            console.kill()


def test_a_member_that_sigterm_ends_commits_and_leaves() -> None:
    """As Ctrl-C does. A member that is just killed keeps its partitions until its session ends."""
    group = ["-g", "kitchen", "--from", "earliest"]
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", "tea")
        command = [sys.executable, "-m", "ottla", "consume", "orders", *group, "-b", broker.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "0:0\ttea\n"
            reader.terminate()
            assert reader.wait(PATIENCE_S) == 128 + signal.SIGTERM
        assert admin.describe_groups("kitchen").members == ()
        assert admin.group_lag("kitchen").total == 0


def test_ctrl_c_ends_streams_whichever_thread_takes_it() -> None:
    stopped = threading.Event()
    in_time: list[bool] = []

    def consume(_: object) -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        in_time.append(stopped.wait(PATIENCE_S))

    with pytest.raises(KeyboardInterrupt):
        run_streams(consume, [object()], stopped.set)  # type: ignore[list-item]
    assert in_time == [True]
