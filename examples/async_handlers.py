"""Handlers by topic on an event loop, as message frameworks have them: a decorator, a group, commits.

Prints:

    paid for 2 x tea
    1 records were handled
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

from ottla import EmbeddedBroker, Schema, aio


@dataclasses.dataclass
class Order:
    """What the topic has."""

    item: str
    count: int


ORDERS = Schema.json(
    {"type": "object", "properties": {"item": {"type": "string"}, "count": {"type": "integer"}}}, rows=Order
)
Handler = Callable[[Order], Awaitable[None]]


class App:
    """Calls a handler for each record of its topic, and commits it afterwards."""

    def __init__(self) -> None:
        self.handled = 0
        self._handlers: dict[str, Handler] = {}

    def subscriber(self, topic: str) -> Callable[[Handler], Handler]:
        """Mark a coroutine function as the handler of a topic."""

        def keep(handler: Handler) -> Handler:
            self._handlers[topic] = handler
            return handler

        return keep

    async def run(self, bootstrap: str) -> None:
        """Until it is cancelled: a record whose handler was cut is not committed, and comes again."""
        async with aio.GroupConsumer(
            list(self._handlers),
            group_id="app",
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            value_deserializer=ORDERS,
        ) as consumer:
            async for message in consumer:
                if message.value is not None:  # a tombstone has no value
                    await self._handlers[message.topic](message.value)
                await consumer.commit(message)
                self.handled += 1


app = App()
paid = asyncio.Event()


@app.subscriber("orders")
async def pay(order: Order) -> None:
    """The application."""
    print(f"paid for {order.count} x {order.item}")
    paid.set()


async def main() -> None:
    """A broker, one record, and the application until it has handled it."""
    async with EmbeddedBroker.aio() as broker:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, value_serializer=ORDERS) as producer:
            await producer.send("orders", Order("tea", 2))
        running = asyncio.create_task(app.run(broker.bootstrap))
        await paid.wait()
        while not app.handled:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
    print(f"{app.handled} records were handled")


if __name__ == "__main__":
    asyncio.run(main())
