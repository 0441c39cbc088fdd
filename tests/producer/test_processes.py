"""What shows only in a process of its own: its memory, Ctrl-C, forks, an exit without a close."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.producer.reading import values

TIMEOUT_S = 90
BUFFER_MB = 16
SLACK_MB = 100


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(program: str, *arguments: str) -> str:
    process = start(program, *arguments)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_memory_is_bounded_by_the_buffer(broker: EmbeddedBroker, topic: str, way: str) -> None:
    """A broker that takes nothing for a while; ten times the buffer is handed in."""
    broker.delay("Produce", 0.3, times=5)
    out = run(
        """
        import resource, sys
        import pyarrow as pa
        from ottla import kernels
        from ottla.producer import Producer

        kernels.use("compiled")  # Numba's own memory is no part of what sending takes

        def used_mb():
            return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20

        bootstrap, topic, way, buffer_mb = sys.argv[1:]
        table = pa.table({"key": pa.array([b"%d" % n for n in range(2_000)]),
                          "value": pa.array([bytes(1_000)] * 2_000)})
        with Producer(bootstrap_servers=bootstrap, buffer_memory=int(buffer_mb) * 2**20) as one:
            one.send_batch(topic, table).result(60)
            one.send(topic, b"v", b"k").result(60)
            before, most = used_mb(), 0.0
            for _ in range(int(buffer_mb) * 5):
                if way == "columns":
                    one.send_batch(topic, table)
                else:
                    for n in range(2_000):
                        one.send(topic, bytes(1_000), b"%d" % n)
                most = max(most, used_mb())
        print(most - before)
        """,
        broker.bootstrap,
        topic,
        way,
        str(BUFFER_MB),
    )
    assert float(out) < BUFFER_MB + SLACK_MB
    found = values(broker.bootstrap, topic)
    assert sum(map(len, found.values())) == 2_001 + BUFFER_MB * 5 * 2_000


@pytest.fixture
def silent_broker() -> Iterator[EmbeddedBroker]:
    """One that takes requests and never answers them."""
    with EmbeddedBroker() as one:
        one.create_topic("t")
        one.delay("Produce", 600, times=-1)
        yield one


@pytest.mark.parametrize(
    "waiting",
    [
        "one.send('t', b'v').result()",
        "one.send('t', b'v'); one.flush()",
        "[one.send('t', bytes(9000)) for _ in range(99)]",
    ],
    ids=["result", "flush", "full buffer"],
)
def test_ctrl_c_ends_every_wait(silent_broker: EmbeddedBroker, waiting: str) -> None:
    process = start(
        f"""
        import sys
        from ottla.producer import Producer
        with Producer(bootstrap_servers=sys.argv[1], buffer_memory=100_000) as one:
            one._engine.state.topics.wait_known("t")
            print("waits", flush=True)
            {waiting}
        """,
        silent_broker.bootstrap,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode in {1, 130, -signal.SIGINT}
    assert "KeyboardInterrupt" in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_producer_does_not_survive_a_fork_and_says_so(broker: EmbeddedBroker, topic: str) -> None:
    out = run(
        """
        import os, sys, warnings
        warnings.simplefilter("ignore")
        from ottla import Producer, ProducerClosed
        one = Producer(bootstrap_servers=sys.argv[1])
        one.send(sys.argv[2], b"parent").result(60)
        child = os.fork()
        if not child:
            try:
                one.send(sys.argv[2], b"child")
            except ProducerClosed as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        one.send(sys.argv[2], b"parent").result(60)
        one.close()
        """,
        broker.bootstrap,
        topic,
    )
    assert "made before a fork" in out
    assert sorted(value or b"" for found in values(broker.bootstrap, topic).values() for value in found) == [
        b"parent",
        b"parent",
    ]


def test_a_program_that_forgets_to_close_ends_and_is_warned(broker: EmbeddedBroker, topic: str) -> None:
    out = run(
        """
        import gc, sys, threading, warnings
        from ottla.producer import Producer
        warnings.simplefilter("always")
        seen = []
        warnings.showwarning = lambda message, *rest: seen.append(str(message))
        one = Producer(bootstrap_servers=sys.argv[1])
        one.send(sys.argv[2], b"v").result(60)
        del one
        gc.collect()
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join(30)
        print(seen, "threads:", threading.active_count())
        """,
        broker.bootstrap,
        topic,
    )
    assert "<Producer 'ottla-producer' to" in out
    assert "was not closed" in out
    assert "threads: 1" in out
