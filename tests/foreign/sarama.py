"""sarama's own functional tests, against our broker.

They want five brokers behind toxiproxy on fixed ports, and Docker, by which they stop brokers and run Kafka's
tools. Toxiproxy is the real one. For Docker stands a program that asks this process, or runs our tools.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ottla import ConfigError, EmbeddedBroker
from tests.foreign import kgo
from tests.foreign.results import Result
from tools.guarded_server import GuardedServer, free_address
from tools.peer_cache import go_installed, go_test_program

MODULE = "github.com/IBM/sarama@v1.61.1"
PROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
KAFKA_VERSION = "4.0.0"
BROKERS = 5
FIRST_PORT = 29091
"""The tests know the ports that clients connect to."""
LISTENER_PORT = 39091
RUN_S = 3_600
OUTDATED = {
    "TestFuncConsumerGroupCooperative": "sarama sends its fetches over the connection of the group: they may "
    "keep its SyncGroup waiting for longer than the 6 s of the session, with any broker",
}
DOCKER = """#!{python}
import os, subprocess, sys
compose, command, *words = sys.argv[1:]
if command in ("start", "stop"):
    with open({control!r}, "w") as control:
        control.write(command + " " + words[0].rpartition("-")[2] + "\\n")
    with open({done!r}) as done:
        done.read()
elif command == "exec":
    tool = [os.path.basename(words[2]), *words[3:]]
    tool = [word.replace("kafka-1:9091", "127.0.0.1:{port}") for word in tool]
    sys.exit(subprocess.run([{python!r}, "-m", "ottla", *tool]).returncode)
"""


def results(place: Path) -> Iterator[Result]:
    """Run all functional tests. Raises Unavailable where there is no Go, or no module."""
    program = go_test_program(MODULE, "", tags="functional")
    log = place / "sarama.log"
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{LISTENER_PORT}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{FIRST_PORT}",
        "auto.create.topics.enable": "false",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "broker.id": "1",
        "broker.rack": ",".join(str(number + 1) for number in range(BROKERS)),
    }
    with (
        EmbeddedBroker(brokers=BROKERS, properties=properties) as broker,
        toxiproxy(place) as proxy,
        log.open("wb") as out,
    ):
        _make_docker(place, broker)
        environment = {
            **os.environ,
            "TOXIPROXY_ADDR": f"http://{proxy}",
            "KAFKA_VERSION": KAFKA_VERSION,
            "PATH": f"{place}{os.pathsep}{os.environ['PATH']}",
        }
        command = [str(program), "-test.v", f"-test.timeout={RUN_S}s"]
        subprocess.run(command, cwd=place, env=environment, stdout=out, stderr=out, timeout=RUN_S + 60)
    yield from kgo.outcomes("sarama", log.read_text(errors="replace").splitlines(), OUTDATED)


@contextmanager
def toxiproxy(place: Path) -> Iterator[str]:
    """The address of toxiproxy, with a proxy before each broker."""
    address = free_address()
    host, _, port = address.partition(":")
    proxies = [
        {
            "name": f"kafka{number + 1}",
            "listen": f"127.0.0.1:{FIRST_PORT + number}",
            "upstream": f"127.0.0.1:{LISTENER_PORT + number}",
            "enabled": True,
        }
        for number in range(BROKERS)
    ]
    (place / "proxies.json").write_text(json.dumps(proxies))
    words = ["-host", host, "-port", port, "-config", str(place / "proxies.json")]
    with GuardedServer([str(go_installed(PROXY)), *words], address, place / "toxiproxy.log"):
        yield address


def _make_docker(place: Path, broker: EmbeddedBroker) -> None:
    """A program `docker` that lets this process start and stop brokers."""
    control, done = str(place / "control"), str(place / "done")
    for pipe in (control, done):
        os.mkfifo(pipe)
    docker = place / "docker"
    docker.write_text(DOCKER.format(python=sys.executable, control=control, done=done, port=FIRST_PORT))
    docker.chmod(0o755)

    def obey() -> None:
        while True:
            with open(control) as asked:
                word, number = asked.read().split()
            with suppress(ConfigError):  # Docker takes no offence at a broker that runs already
                (broker.start_broker if word == "start" else broker.stop_broker)(int(number))
            with open(done, "w"):
                pass

    threading.Thread(target=obey, daemon=True, name="stand-in for Docker").start()
