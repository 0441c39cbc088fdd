"""A web service on one event loop: requests are sent to a topic, a group of the same process reads it.

The clients live as long as the application, in its `lifespan`. Starlette has the same `lifespan`.

Prints:

    POST /orders -> {'partition': 0, 'offset': 0}
    GET /orders -> {'tea': 2}
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from ottla import EmbeddedBroker, Schema, aio


class Order(BaseModel):
    """What a request has, and the topic."""

    item: str
    count: int


ORDERS = Schema.json(Order.model_json_schema(), rows=Order)


def service(bootstrap: str) -> FastAPI:
    """The application, on brokers that are found at `bootstrap`."""
    totals: Counter[str] = Counter()

    async def count() -> None:
        async with aio.GroupConsumer(
            "orders",
            group_id="totals",
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            value_deserializer=ORDERS,
        ) as consumer:
            async for message in consumer:
                if message.value is not None:
                    totals[message.value.item] += message.value.count

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        producing = aio.Producer(bootstrap_servers=bootstrap, value_serializer=ORDERS)
        async with producing as producer, asyncio.TaskGroup() as tasks:
            app.state.producer = producer
            counting = tasks.create_task(count())
            yield
            counting.cancel()  # leaves the group

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders")
    async def send(order: Order) -> dict[str, int]:
        """Answers when the brokers have the record."""
        delivery = await app.state.producer.send("orders", order)
        metadata = await delivery.result(timeout=5)
        return {"partition": metadata.partition, "offset": metadata.offset}

    @app.get("/orders")
    async def read() -> dict[str, int]:
        """What was ordered so far."""
        return totals

    return app


async def main() -> None:
    """A broker and the service, both on this loop, and a visitor."""
    async with EmbeddedBroker.aio() as broker:
        await broker.create_topic("orders")
        settings = uvicorn.Config(service(broker.bootstrap), port=0, log_level="warning")
        server = uvicorn.Server(settings)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        address = server.servers[0].sockets[0].getsockname()
        url = f"http://{address[0]}:{address[1]}/orders"

        def visit(body: bytes | None) -> dict[str, int]:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                told: dict[str, int] = json.load(answer)
                return told

        sent = await asyncio.to_thread(visit, b'{"item": "tea", "count": 2}')
        print(f"POST /orders -> {sent}")
        while not (totals := await asyncio.to_thread(visit, None)):
            await asyncio.sleep(0.01)
        print(f"GET /orders -> {totals}")
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
