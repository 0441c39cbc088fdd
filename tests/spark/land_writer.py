"""A process that lands a topic again and again in children of its own, so that each can be killed.

    python land_writer.py BOOTSTRAP TOPIC FORMAT URL

It has imported everything, so a child is there at once. For each line of input it starts a child that lands
what is there, and prints the child's id; when the child ends, it prints its exit status.
"""

from __future__ import annotations

import os
import sys
import traceback

from ottla.spark.lander import Lander
from ottla.spark.raw_tables import raw_table

BATCH_BYTES = 12_000


def land(bootstrap: str, topic: str, kind: str, url: str) -> None:
    """All that is there, in small batches."""
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    table = raw_table(kind, url, {}, has_headers=False)
    for _ in Lander(source, table, batch_bytes=BATCH_BYTES).batches():
        pass


def main(arguments: list[str]) -> None:
    """Serve requests until the input ends."""
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                land(*arguments)
                status = 0
            finally:
                if status:
                    traceback.print_exc()
                os._exit(status)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{os.waitpid(pid, 0)[1]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
