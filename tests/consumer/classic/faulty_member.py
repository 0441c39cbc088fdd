"""A member in a process of its own, to be stopped and killed: writes every message's place to its output.

python -m tests.consumer.classic.faulty_member ZOOKEEPER GROUP CONSUMER_ID TOPIC [PROPERTY=VALUE …]
"""

from __future__ import annotations

import sys

from ottla.consumer.classic import ConsumerConnector
from tests.consumer.classic.conftest import QUICK


def main() -> None:
    connect, group, consumer_id, topic, *more = sys.argv[1:]
    given = {**QUICK, "zookeeper_connect": connect, "group_id": group, "consumer_id": consumer_id}
    given |= dict(setting.split("=", 1) for setting in more)
    with ConsumerConnector(given) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        sys.stdout.write("ready\n")
        for message in stream:
            sys.stdout.write(f"{message.partition} {message.offset}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
