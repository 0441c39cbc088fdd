"""ZooKeeper and members of a classic group as processes of the simulated system.

The logic of the members is real, as in `tests.consumer.classic.simulation`; records come from the simulated
brokers, offsets and owners are in ZooKeeper. Sessions live by pings over the simulated network, so that
whatever befalls processes and connections befalls them. Requests are performed at once where ZooKeeper runs
and knows the session; now and then an answer is lost.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from ottla import TopicAndPartition, aio
from ottla.consumer.classic.effects import Effect, Start
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.topic_count import StaticTopicCount
from ottla.testing.simulation import Simulation
from ottla.testing.simulation.loop import PROCESS
from ottla.testing.simulation.loop import Process as SimulatedProcess
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_offset, encode_offset
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper, WatchDelivery
from ottla.zookeeper.session import SessionState
from tests.consumer.classic.simulation.ottla_member import OttlaMember
from tests.consumer.classic.simulation.world import GROUP, SESSION_TIMEOUT_MS, Process, World
from tests.proof.checker import Placed
from tests.proof.simulated.account import Account, Places
from tests.proof.simulated.parts import PARTITIONS, PLAIN, SETTINGS, Main

ADDRESS = "127.0.0.1", 2181
SESSION_S = SESSION_TIMEOUT_MS / 1000
PING_S = SESSION_S / 3
LOOK_S = 0.5
LOST_ANSWERS = 0.01


class Servers:
    """ZooKeeper. What it stores outlives its process."""

    def __init__(self) -> None:
        self.ensemble = MemoryZooKeeper(WatchDelivery.ON_DEMAND)
        self.clients: list[Process] = []
        self._heard_s: dict[int, float] = {}
        self._process: SimulatedProcess | None = None
        World(random.Random(0), ensemble=self.ensemble).set_partitions(PLAIN, PARTITIONS)

    @property
    def is_up(self) -> bool:
        process = self._process
        return process is not None and not process.is_dead and process.frozen is None

    def hear(self, session: MemorySession) -> None:
        """Something of a session arrives. Without servers that know it, its connection breaks."""
        if not (self.is_up and self.ensemble.is_alive(session.session_id)):
            session.suspend()
        elif session.state is SessionState.CONNECTED:
            self._heard_s[session.session_id] = asyncio.get_running_loop().time()

    def stored(self, place: TopicAndPartition) -> int:
        """The committed offset, or -1."""
        path = paths.offset(GROUP, *place)
        is_there = self.ensemble.tree.stat(path) is not None
        return decode_offset(path, self.ensemble.tree.read(path).data) if is_there else -1

    async def main(self) -> None:
        """The process. Sessions have their whole time again after a start."""
        now_s = asyncio.get_running_loop().time
        self._process = PROCESS.get()
        self._heard_s = dict.fromkeys(self._heard_s, now_s())
        await asyncio.start_server(self._serve, *ADDRESS)
        while True:
            await asyncio.sleep(LOOK_S)
            for session_id in [one for one, at_s in self._heard_s.items() if at_s + SESSION_S < now_s()]:
                del self._heard_s[session_id]
                self.ensemble.end(session_id)
            for client in self.clients:
                client.expect_events()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer pings, each the number of a session."""
        with suppress(OSError):
            while (line := await reader.readline()) and self.ensemble.is_alive(int(line)):
                self._heard_s[int(line)] = asyncio.get_running_loop().time()
                writer.write(line)
        writer.close()


class LifeWorld(World):
    """What a member has around it in one life: timers of its process, offsets in ZooKeeper."""

    def __init__(self, servers: Servers) -> None:
        super().__init__(
            random.Random(random.getrandbits(64)), ensemble=servers.ensemble, processes=servers.clients
        )
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._context = contextvars.copy_context()
        self._servers = servers

    @property
    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(delay_ms / 1000, self._do, action, context=self._context)

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - of the process
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the process."""
        if not self.failed.done():
            self.failed.set_exception(error)

    def stored(self, place: TopicAndPartition) -> int:
        return self._servers.stored(place)


class ClassicMember(OttlaMember):
    """A member that reads from brokers. Each life has a name of its own."""

    def __init__(
        self, servers: Servers, account: Account, name: str, consumer: aio.PartitionConsumer
    ) -> None:
        self._life = LifeWorld(servers)
        super().__init__(self._life, name, StaticTopicCount({PLAIN: 1}))
        self._servers = servers
        self._account = account
        self._consumer = consumer
        self._has_begun = False
        self._readers: dict[TopicAndPartition, asyncio.Task[None]] = {}

    async def live(self) -> None:
        """Connect again and again. Raises what goes wrong anywhere in the process."""
        link = asyncio.create_task(self._stay_connected())
        ends: list[asyncio.Future[None]] = [link, self._life.failed]
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        done.pop().result()

    # --- its session

    async def _stay_connected(self) -> None:
        while True:
            with suppress(OSError):
                await self._connect()
            self.session.suspend()
            await asyncio.sleep(random.uniform(0.01, 1.0))

    async def _connect(self) -> None:
        """Until the connection breaks, or nothing comes any more."""
        reader, writer = await asyncio.open_connection(*ADDRESS)
        try:
            await self._resume()
            while self.session.state is SessionState.CONNECTED:
                writer.write(b"%d\n" % self.session.session_id)
                async with asyncio.timeout(PING_S):
                    if not await reader.readline():
                        return
                await asyncio.sleep(PING_S)
        finally:
            writer.close()

    async def _resume(self) -> None:
        if not self._servers.is_up:
            return
        if self._has_begun:
            self.session.resume()
        else:
            self._has_begun = True
            self.session.add_listener(self._session_changed)
            self.session.connect()
            self._commit_now_and_then()
        if self.session.state is SessionState.LOST:
            await asyncio.sleep(random.uniform(0.01, 0.5))
            self.session.resume()
        self._servers.hear(self.session)

    def _perform(self, effect: Effect) -> object:
        self._servers.hear(self.session)
        if random.random() < LOST_ANSWERS:
            self.lose_answer()
        return super()._perform(effect)

    def answer_was_lost(self) -> None:
        """The connection is tried again by whoever pings."""

    # --- its partitions

    def _start(self, starts: Mapping[TopicAndPartition, Start]) -> None:
        super()._start(starts)
        for place, (thread, offset) in starts.items():
            task = asyncio.create_task(self._read(place, thread, max(0, offset), self._readers.get(place)))
            task.add_done_callback(self._read_to_the_end)
            self._readers[place] = task

    def _stop(self, places: tuple[TopicAndPartition, ...], *, keeps_progress: bool) -> None:
        super()._stop(places, keeps_progress=keeps_progress)
        for place in places:
            if place in self._readers:
                self._readers[place].cancel()

    def _read_to_the_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._life.fail(error)

    async def _read(
        self,
        place: TopicAndPartition,
        thread: ConsumerThreadId,
        offset: int,
        before: asyncio.Task[None] | None,
    ) -> None:
        """Hand out records, each while the partition is ours without doubt, until it is cancelled."""
        if before is not None:
            await asyncio.wait([before])
        seen: Places = self._account.assigned(GROUP, self.name, -1, [place])
        since_s: float | None = None
        reader = await self._consumer.consume_partition(*place, offset)
        try:
            async for message in reader:
                while not self.gate.is_open(self.world.now_ms):
                    await asyncio.sleep(LOOK_S)
                self._check_owner(place, str(thread), "hands out")
                now_s = self.world.now_ms / 1000
                since_s = since_s or now_s
                self._account.held(GROUP, self.name, place, since_s, now_s)
                value = (message.value or b"").decode()
                seen[place].append(Placed(message.offset, value))
                self._account.worked(GROUP, value)
                self.feeds[place] = thread, message.offset + 1
                self.progress[place] = message.offset + 1
                await asyncio.sleep(random.expovariate(20))
        finally:
            await reader.close()

    def _store(self, place: TopicAndPartition, offset: int) -> None:
        """Keep an offset. Raises ZooKeeperError."""
        self._servers.hear(self.session)
        number = self._account.ordered((GROUP, place), offset)
        path = paths.offset(GROUP, *place)
        if self.session.exists(path) is None:
            self.session.create_with_parents(path, encode_offset(offset))
        else:
            self.session.set(path, encode_offset(offset))
        self._account.done(number)


def member(sim: Simulation, account: Account, servers: Servers, name: str) -> Main:
    """A member of the group in ZooKeeper."""

    async def main() -> None:
        life = f"{name}_{account.new_life(name)}"
        async with aio.PartitionConsumer(SETTINGS, bootstrap_servers=sim.bootstrap) as consumer:
            await ClassicMember(servers, account, life, consumer).live()

    return main
