"""A broker as a simulated process: its real code, on simulated connections and a disk that may lose power."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

from ottla.broker.embedded import DEFAULTS
from ottla.broker.service import BrokerService
from ottla.broker.settings.broker_config import BrokerConfig, texts_by_name
from ottla.model.errors import KafkaError
from ottla.testing.simulation.disk import Disk, Note, RecordingFiles, put
from ottla.testing.simulation.loop import Process, SimulationLoop, close_quietly
from ottla.testing.simulation.network import FIRST_PORT, Network
from ottla.testing.simulation.trace import Trace

HOST = "127.0.0.1"


class MortalFiles(RecordingFiles):
    """The files of one life of a broker. Changes go to the disk at once; there are none after its death."""

    def __init__(self, root: Path, disk: Disk, trace: Trace) -> None:
        super().__init__(root)
        self._inodes = disk.inodes  # of all lives
        self._last = disk.last_number
        self._disk = disk
        self._trace = trace
        self.is_dead = False

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if self.is_dead:
            raise OSError("the process is dead")
        yield

    def _take(self, note: Note) -> None:
        self._trace.note(str(note))
        self._disk.take(note)


class SimulatedBroker:
    """Brokers of one data directory, in one process. `start` may follow `kill` and `lose_power`."""

    def __init__(
        self,
        loop: SimulationLoop,
        network: Network,
        root: Path,
        chance: Random,
        count: int,
        properties: Mapping[str, object],
    ) -> None:
        own = {"log.dir": str(root), "listeners": f"PLAINTEXT://{HOST}:{FIRST_PORT}"}
        self._config = BrokerConfig.from_properties({**DEFAULTS, **own, **texts_by_name(properties)})
        self.bootstrap = ",".join(f"{HOST}:{FIRST_PORT + number}" for number in range(count))
        self._loop = loop
        self._network = network
        self._root = root
        self._chance = chance
        self._count = count
        self._disk = Disk.holding(root)
        self._files: MortalFiles | None = None
        self._service: BrokerService | None = None
        self._ready: asyncio.Event = asyncio.Event()
        self.process: Process | None = None

    async def start(self) -> None:
        """Start, and wait until clients can connect."""
        self.process = process = Process("broker")
        self._ready.clear()
        serving = self._loop.spawn(process, self._serve())
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            ready.cancel()
            serving.result()

    async def _serve(self) -> None:
        self._files = MortalFiles(self._root, self._disk, self._network.trace)
        self._service = BrokerService(self._config, self._count, self._files)
        await self._service.start()
        self._ready.set()
        await asyncio.Event().wait()

    @property
    def is_up(self) -> bool:
        """Whether clients can connect."""
        return self.process is not None and not self.process.is_dead and self._ready.is_set()

    def kill(self) -> None:
        """End the process now. What it has written stays."""
        process, service, files = self.process, self._service, self._files
        if process is None or process.is_dead:
            return
        tasks = self._loop.tasks_of(process)
        self._loop.kill(process)
        if files is not None:
            files.is_dead = True
        for task in tasks:  # they hold descriptors
            process.context.run(close_quietly, task.get_coro())
        if service is not None:
            service.cluster.store.directory.abandon()
        self._service = self._files = None

    def lose_power(self, silence_s: float) -> None:
        """End the process now. Of what was not flushed, any part is lost; peers hear nothing for a while."""
        if self.process is not None:
            self._network.stall(self.process, self._loop.time() + silence_s)
        self.kill()
        drawn = self._disk.draw(self._chance)
        shutil.rmtree(self._root)
        self._root.mkdir()
        put(drawn, self._root)
        self._disk = Disk.holding(self._root)

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic without a client. Raises KafkaError."""
        service, process = self._service, self.process
        if service is None or process is None:
            raise KafkaError(-1, "the broker is down")
        await self._loop.spawn(process, service.create_topic(name, partitions, 1, dict(config)))
