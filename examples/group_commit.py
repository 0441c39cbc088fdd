"""Commit after the work is done: a member that stops is followed by another one exactly where it committed.

Prints:

    first member handled 0 1 2 3
    second member handled 4 5 6 7 8 9
"""

from __future__ import annotations

from itertools import islice

from ottla import EmbeddedBroker, GroupConsumer, Producer


def handle(bootstrap: str, count: int) -> str:
    """Read and commit `count` records as a member of the group; return their offsets."""
    with GroupConsumer(
        "orders",
        group_id="billing",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",  # where a group without a committed position begins
        enable_auto_commit=False,
    ) as consumer:
        offsets = [str(message.offset) for message in islice(consumer, count)]
        consumer.commit()  # everything that was handed out so far
        return " ".join(offsets)


def main() -> None:
    with EmbeddedBroker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(10):
                producer.send("orders", str(number))
        print("first member handled", handle(broker.bootstrap, 4))
        print("second member handled", handle(broker.bootstrap, 6))


if __name__ == "__main__":
    main()
