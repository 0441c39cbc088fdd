"""Copy topics from one cluster to another, partition by partition.

Prints:

    300 records copied
"""

from __future__ import annotations

import threading
import time

from ottla import EmbeddedBroker, Producer, replay
from ottla.consumer.classic import Whitelist
from ottla.mirror import Mirror

RECORDS = 300


def main() -> None:
    with EmbeddedBroker() as source, EmbeddedBroker() as target:
        source.create_topic("orders", 3)
        with Producer(bootstrap_servers=source.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", f"order {number}", partition=number % 3)

        mirror = Mirror(
            {"bootstrap.servers": source.bootstrap, "group.id": "mirror"},
            {"bootstrap.servers": target.bootstrap},
            Whitelist("orders.*"),
        )
        thread = threading.Thread(target=mirror.run)
        thread.start()
        while mirror.metrics().sent < RECORDS:
            time.sleep(0.01)
        mirror.stop()
        thread.join()

        with replay("orders", bootstrap_servers=target.bootstrap) as copies:
            print(copies.to_table().num_rows, "records copied")


if __name__ == "__main__":
    main()
