"""Send three records and read them back as a member of a group.

Prints:

    0 b'table 4' b'one coffee'
    1 b'table 4' b'one cake'
    2 b'table 7' b'two teas'
"""

from __future__ import annotations

from itertools import islice

from ottla import EmbeddedBroker, GroupConsumer, Producer


def main() -> None:
    with EmbeddedBroker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:  # leaving the block sends everything
            producer.send("orders", b"one coffee", key=b"table 4")
            producer.send("orders", b"one cake", key=b"table 4")
            producer.send("orders", b"two teas", key=b"table 7")

        with GroupConsumer(
            "orders", group_id="kitchen", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            for message in islice(consumer, 3):
                print(message.offset, message.key, message.value)


if __name__ == "__main__":
    main()
