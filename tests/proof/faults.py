"""python -m tests.proof.faults [--count 40] [--seed S]: workers while all kinds of things go wrong.

Workers read and write in transactions, through a line that delays, throttles, cuts, goes silent and
duplicates; they are killed and replaced; their broker is killed and stopped, its clock jumps, and its
descriptors run out. After each fault transactions must go on before it is mended; the history is judged in
the end. `--seed` repeats the faults, at other instants.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random, SystemRandom

from tests.broker.faults.forked_broker import ForkedBroker
from tests.faulty_line import CUT_WITHIN_BYTES, DELAY_S, HOST, THROTTLED_BYTES_PER_S, FaultyLine
from tests.jumping_clock import JumpingClock
from tests.proof.checker import anomalies
from tests.transactions.run import Run
from tools.guarded_server import free_address

SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.segment.bytes": "50000",
    "log.index.interval.bytes": "1000",
}
DAY_S = 86_400
OUTAGE_S = (0.1, 2.0)
"""How long a broker is stopped, or has no descriptor: also longer than the sessions of its groups."""


class FaultyBroker(ForkedBroker):
    """A broker behind a line, with a clock that jumps, and what can be done to it."""

    session_ms = 1_000
    request_timeout_ms = 5_000

    def __init__(self, data_dir: Path, chance: Random) -> None:
        self._chance = chance
        self.line = FaultyLine()
        self._clock_hand = JumpingClock(data_dir.with_name("clock"))
        settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://{self.line.address}"}
        port = int(free_address().rpartition(":")[2])
        super().__init__(data_dir, settings, self._clock_hand.path, port)
        self.line.target = HOST, port
        self.bootstrap = self.line.address
        self._pause = threading.Event()

    @property
    def faults(self) -> list[Callable[[], None]]:
        """All of them, in an order by chance."""
        every = [
            self.cut_answers,
            self.cut_requests,
            self.half_open,
            self.delay,
            self.throttle,
            self.duplicate,
            self.clock_on,
            self.clock_back,
            self.stop,
            self.exhaust_descriptors,
        ]
        return self._chance.sample(every, len(every))

    def mend(self) -> None:
        """End what lasts. The clock stays where it is."""
        self.line.mend()

    # --- the line

    def cut_answers(self) -> None:
        self.line.cut_after(self._chance.randrange(1, CUT_WITHIN_BYTES))

    def cut_requests(self) -> None:
        self.line.cut_requests_after(self._chance.randrange(1, CUT_WITHIN_BYTES))

    def half_open(self) -> None:
        self.line.silence()

    def delay(self) -> None:
        self.line.delay_s = self._chance.uniform(*DELAY_S)

    def throttle(self) -> None:
        self.line.bytes_per_s = THROTTLED_BYTES_PER_S

    def duplicate(self) -> None:
        self.line.duplicates = True
        self.line.cut()

    # --- the process

    def clock_on(self) -> None:
        self._clock_hand.jump(self._chance.uniform(1, DAY_S))

    def clock_back(self) -> None:
        self._clock_hand.jump(-self._chance.uniform(1, DAY_S))

    def stop(self) -> None:
        """SIGSTOP, and on after a while."""
        os.kill(self.pid, signal.SIGSTOP)
        self._wait()
        os.kill(self.pid, signal.SIGCONT)

    def exhaust_descriptors(self) -> None:
        """No connection and no segment can be opened for a while, and all clients have to connect again."""
        soft, hard = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        used = {int(name) for name in os.listdir(f"/proc/{self.pid}/fd")}
        free = next(number for number in count() if number not in used)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (free + self._chance.randrange(3), hard))
        self.line.cut()
        self._wait()
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (soft, hard))

    def _wait(self) -> None:
        self._pause.wait(self._chance.uniform(*OUTAGE_S))

    def close(self) -> None:
        super().close()
        self.line.close()


def prove(number: int, seed: int, directory: Path) -> list[str]:
    """Let so many things go wrong; everything that is wrong in the end."""
    chance = Random(seed)
    with closing(FaultyBroker(directory / "data", chance)) as broker:
        run = Run(broker, directory, chance)
        run.prepare()
        try:
            with run.reader():
                run.disturb(number, broker.faults, broker.mend)
                run.finish()
        finally:
            run.close()
        return anomalies(run.history()) + broker.surprises


def main() -> int:
    """Return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 31))
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="ottla-faults-") as directory:
        wrong = prove(options.count, options.seed, Path(directory))
    sys.stdout.write("\n".join([*wrong, f"{options.count} faults, {len(wrong)} wrong\n"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
