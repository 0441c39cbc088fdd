"""A broker as a simulated process: its real code, simulated connections, a disk that may fail or be full."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from ottla.broker.service import BrokerService
from ottla.broker.settings.broker_config import LOCAL_DEFAULTS, BrokerConfig, texts_by_name
from ottla.log.file_system import Buffer
from ottla.model.errors import KafkaError
from ottla.testing.simulation.disk import Disk, Note, RecordingFiles, put
from ottla.testing.simulation.loop import Process, SimulationLoop, close_quietly
from ottla.testing.simulation.network import FIRST_PORT, Network
from ottla.testing.simulation.trace import Trace

HOST = "127.0.0.1"


class MortalFiles(RecordingFiles):
    """The files of a broker from a start to its kill. Changes go to the disk at once; after a kill none do.

    `room` is how many bytes can be written until the disk is full; None if there is enough.
    """

    def __init__(self, root: Path, disk: Disk, trace: Trace) -> None:
        super().__init__(root)
        self._inodes = disk.inodes  # shared with earlier starts
        self._last = disk.last_number
        self._disk = disk
        self._trace = trace
        self.is_dead = False
        self.room: int | None = None

    def open(self, path: Path) -> int:
        if self.room == 0 and not path.exists():
            raise _disk_full()
        return super().open(path)

    def make_directory(self, path: Path) -> None:
        if self.room == 0:
            raise _disk_full()
        super().make_directory(path)

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.room is None:
            return super().write(fd, buffers, position)
        fitting = b"".join(map(bytes, buffers))[: self.room]
        if not fitting:
            raise _disk_full()
        self.room -= len(fitting)
        return super().write(fd, [fitting], position)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if self.is_dead:
            raise OSError("the process is dead")
        yield

    def _take(self, note: Note) -> None:
        self._trace.note(str(note))
        self._disk.take(note)


def _disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class SimulatedBroker:
    """Brokers with one data directory, in one process. `start` may follow `kill` and `lose_power`."""

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
        self._config = BrokerConfig.from_properties({**LOCAL_DEFAULTS, **own, **texts_by_name(properties)})
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
        self.process = process = Process("broker", self.process)
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
        """End the process now. The data that it has written stays."""
        process, service, files = self.process, self._service, self._files
        if process is None or process.is_dead:
            return
        tasks = self._loop.tasks_of(process)
        self._loop.kill(process)
        if files is not None:
            files.is_dead = True
        for task in tasks:  # tasks hold descriptors
            process.context.run(close_quietly, task.get_coro())
        if service is not None:
            service.cluster.store.directory.abandon()
        self._service = self._files = None

    def lose_power(self, silence_s: float) -> None:
        """End the process now. Any part of the unflushed data is lost; peers notice after `silence_s`."""
        if self.process is not None:
            self._network.stall(self.process, self._loop.time() + silence_s)
        self.kill()
        drawn = self._disk.draw(self._chance)
        shutil.rmtree(self._root)
        self._root.mkdir()
        put(drawn, self._root)
        self._disk = Disk.holding(self._root)

    def fill_disk(self, room: int | None) -> None:
        """Let the broker write only `room` more bytes; None removes the limit, and so does a start."""
        if self._files is not None:
            self._files.room = room

    def move_leader(self, choice: float) -> str:
        """Let another broker lead a partition of any topic; returns a line for the log, "" if none moved."""
        service, process = self._service, self.process
        if service is None or process is None or self._count == 1:
            return ""
        partitions = sorted(service.cluster.store.all_partitions(), key=str)
        index, rest = divmod(choice * len(partitions), 1)
        moved = partitions[int(index)]
        others = [number for number in service.nodes if number != moved.leader]
        leader = others[int(rest * len(others))]
        process.context.run(service.move_leader, moved.topic, moved.index, leader)
        return f"{moved} to broker {leader}"

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic without a client. Raises KafkaError."""
        service, process = self._service, self.process
        if service is None or process is None:
            raise KafkaError(-1, "the broker is down")
        await self._loop.spawn(process, service.create_topic(name, partitions, 1, dict(config)))
