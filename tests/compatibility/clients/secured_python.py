"""Python's clients on secured listeners: secured_python.py CLIENT LOGINS.json

For each login: produce a record, and read it in a group. A login that is wrong must not get that far.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Login = dict[str, Any]
WAIT_S = 30


def context(login: Login) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=login["authority"])
    if login["protocol"] == "SSL":
        made.load_cert_chain(login["certificate"])
    return made


def confluent(login: Login) -> bytes:
    from confluent_kafka import Consumer, KafkaException, Producer

    failed: list[Any] = []
    settings = {
        "bootstrap.servers": login["bootstrap"],
        "security.protocol": login["protocol"],
        "ssl.ca.location": login["authority"],
        "error_cb": lambda error: failed.append(error) if "AUTHENTICATION" in error.name() else None,
        "log_level": 0,
    }
    if login["protocol"] == "SSL":
        settings |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), login["certificate"])
    elif login["mechanism"] == "OAUTHBEARER":
        settings["sasl.mechanism"] = "OAUTHBEARER"
        settings["oauth_cb"] = lambda _: (login["token"], time.time() + 3600)
    else:
        settings |= {"sasl.mechanism": login["mechanism"]}
        settings |= {"sasl.username": login["user"], "sasl.password": login["password"]}
    producer = Producer(settings)
    producer.produce(login["topic"], login["value"].encode())
    while producer.flush(0.1):
        if failed:
            producer.purge()
            producer.flush(1)
            raise KafkaException(failed[0])
    consumer = Consumer({**settings, "group.id": login["group"], "auto.offset.reset": "earliest"})
    consumer.subscribe([login["topic"]])
    message = consumer.poll(WAIT_S)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    consumer.close()
    value = message.value()
    assert value is not None
    return value


def kafka_python(login: Login) -> bytes:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return str(login["token"])

    settings: Login = {"bootstrap_servers": login["bootstrap"], "security_protocol": login["protocol"]}
    if "SSL" in login["protocol"]:
        settings["ssl_context"] = context(login)
    if "SASL" in login["protocol"]:
        settings["sasl_mechanism"] = login["mechanism"]
        if login["mechanism"] == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = Tokens()
        else:
            settings |= {"sasl_plain_username": login["user"], "sasl_plain_password": login["password"]}
    producer = KafkaProducer(**settings, max_block_ms=(3 if login["is_wrong"] else WAIT_S) * 1000)
    try:
        producer.send(login["topic"], login["value"].encode()).get(WAIT_S)
    finally:
        producer.close(1)
    consumer = KafkaConsumer(
        login["topic"],
        **settings,
        group_id=login["group"],
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    value = bytes(next(consumer).value)
    consumer.commit()
    consumer.close()
    return value


def aiokafka(login: Login) -> bytes:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return str(login["token"])

    async def run() -> bytes:
        settings: Login = {"bootstrap_servers": login["bootstrap"], "security_protocol": login["protocol"]}
        if "SSL" in login["protocol"]:
            settings["ssl_context"] = context(login)
        if "SASL" in login["protocol"]:
            settings["sasl_mechanism"] = login["mechanism"]
            if login["mechanism"] == "OAUTHBEARER":
                settings["sasl_oauth_token_provider"] = Tokens()
            else:
                settings |= {"sasl_plain_username": login["user"], "sasl_plain_password": login["password"]}
        producer = AIOKafkaProducer(**settings)
        try:
            await producer.start()
            await producer.send_and_wait(login["topic"], login["value"].encode())
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            login["topic"], **settings, group_id=login["group"], auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            message = await asyncio.wait_for(consumer.getone(), WAIT_S)
            await consumer.commit()
        finally:
            await consumer.stop()
        return bytes(message.value)

    return asyncio.run(run())


CLIENTS: dict[str, Callable[[Login], bytes]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def main(client: str, logins: list[Login]) -> None:
    for login in logins:
        detail = ""
        try:
            value = CLIENTS[client](login).decode()
            outcome = "passed" if value == login["value"] and not login["is_wrong"] else "failed"
            detail = f"got in, and read {value}"
        except Exception as error:  # noqa: BLE001 - whatever a client raises
            outcome, detail = "passed" if login["is_wrong"] else "failed", repr(error)
        print(json.dumps({"step": login["name"], "outcome": outcome, "detail": detail}), flush=True)  # noqa: T201
    print(json.dumps({"done": True}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))
