"""kerberos_logins.py SETTINGS…: log in with each, send a record and read it; a line of JSON tells the end.

Kerberos takes its settings and tickets from the environment of the process.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from ottla import OttlaError, PartitionConsumer, Producer, aio


async def send(settings: dict[str, Any], value: bytes) -> None:
    async with aio.Producer(settings) as producer:
        await (await producer.send("kerberos", value)).result()


def main(logins: list[dict[str, Any]]) -> None:
    for number, settings in enumerate(logins):
        said = "in"
        try:
            with Producer(settings) as producer:
                delivery = producer.send("kerberos", f"login {number}").result()
            with PartitionConsumer(settings) as consumer:
                reader = consumer.consume_partition("kerberos", delivery.partition, delivery.offset)
                said = (next(iter(reader)).value or b"").decode()
            asyncio.run(send(settings, b"on a loop"))
        except OttlaError as error:
            said = f"{type(error).__name__}: {error}"
        print(json.dumps(said), flush=True)  # noqa: T201 - it is what the test reads


if __name__ == "__main__":
    main([json.loads(argument) for argument in sys.argv[1:]])
