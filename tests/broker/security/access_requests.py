"""The same requests of the same users on Apache Kafka and on this broker: who is denied what.

    python -m tests.broker.security.access_requests     asks Apache Kafka, writes tests/golden/access.jsonl

A user has one right, on a topic, a group, a transactional id or the cluster, or all but one. A verdict is
what an answer says about rights: the codes that deny something, what lists show, and authorized operations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ottla.model.acls import CLUSTER_NAME, Acl, PatternType, Permission, ResourceType
from ottla.model.error_codes import Code
from ottla.model.permissions import Operation
from ottla.security.client_login import plain_users_text
from ottla.wire.api.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.api.create_topics import CreateTopic, CreateTopicsRequest
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from ottla.wire.schema import Request, fields
from tests.broker.security.access_rows import GROUP, REQUESTS, TOPIC, TRANSACTION
from tests.broker.wire_client import Client
from tests.waiting import wait_for
from tests.wire.messages import KINDS_BY_NAME, build
from tools.peers import KAFKA_4, RealKafka

GOLDEN = Path(__file__).parents[2] / "golden" / "access.jsonl"
PASSWORD = "pw"
NAMES = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.TRANSACTIONAL_ID: TRANSACTION,
    ResourceType.CLUSTER: CLUSTER_NAME,
}
_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
RIGHTS = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    ),
}
ALL_RIGHTS = [(kind, right) for kind, rights in RIGHTS.items() for right in rights]
ONLY = {f"{kind.name}-{right.name}".lower(): (kind, right) for kind, right in ALL_RIGHTS}
"""Users with one right."""
WITHOUT = {f"without-{user}": right for user, right in ONLY.items()}
"""Users with every right but one, which is denied."""
USERS = ["none", *ONLY, *WITHOUT]
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users_text(dict.fromkeys(USERS, PASSWORD)),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
KAFKA_SETTINGS = {
    **SETTINGS,
    "listener.security.protocol.map": ",".join(
        f"{name}:{name.replace('CONTROLLER', 'PLAINTEXT')}"
        for name in ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT")
    ),
}
DENIALS = {
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    Code.OPERATION_NOT_ATTEMPTED,
}
SHOWN = {
    "MetadataResponse": "topics",
    "ListGroupsResponse": "groups",
    "DescribeTopicPartitionsResponse": "topics",
}


@cache
def request(number: int) -> Request[Any]:
    """The request of a row."""
    name, _, values = REQUESTS[number]
    message: Request[Any] = build(KINDS_BY_NAME[f"{name}Request"], values)
    return message


def verdict(answer: Any) -> list[str]:
    """What an answer says about rights."""
    said = list(_said(answer, ""))
    shown = SHOWN.get(type(answer).__name__)
    if shown:
        named: list[str] = [
            (getattr(item, "name", None) or getattr(item, "group_id", "")) for item in getattr(answer, shown)
        ]
        said.append(f"shows {sorted({TOPIC, GROUP} & set(named))}")  # Kafka makes `absent` a moment later
    return sorted(set(said))


def _said(message: Any, path: str) -> Iterator[str]:
    for field in fields(type(message)):
        value = getattr(message, field.name)
        if field.name.endswith("error_code") and value in DENIALS:
            yield f"{path}{field.name} {Code.of(value).name}"
        elif field.name.endswith("authorized_operations") and value != -(2**31):
            yield f"{path}{field.name} {value}"
        elif isinstance(value, list):
            for item in value:
                if hasattr(item, "__match_args__"):
                    yield from _said(item, f"{path}{field.name}.")


def logged_in(bootstrap: str, user: str) -> Client:
    """A connection of a user, by PLAIN."""
    client = Client.of(bootstrap)
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = client.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{PASSWORD}".encode()), 1)
    assert answer.error_code == 0, answer
    return client


def _rule(
    user: str, kind: ResourceType, name: str, right: Operation, permission: Permission = Permission.ALLOW
) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, f"User:{user}", "*", right, permission)


def prepare(bootstrap: str) -> None:
    """Make the topic and the rights, over a listener where everybody is a super user."""
    acls = [_rule(user, kind, NAMES[kind], right) for user, (kind, right) in ONLY.items()]
    for user, (kind, right) in WITHOUT.items():
        acls.append(_rule(user, kind, NAMES[kind], right, Permission.DENY))
        for other in NAMES:
            name = CLUSTER_NAME if other is ResourceType.CLUSTER else "*"
            acls.append(_rule(user, other, name, Operation.ALL))
    with Client.of(bootstrap) as client:
        made = client.call(
            CreateTopicsRequest(
                topics=[CreateTopic(name=TOPIC, num_partitions=1, replication_factor=1)], timeout_ms=30000
            ),
            7,
        )
        assert made.topics[0].error_code in (0, Code.TOPIC_ALREADY_EXISTS)
        answer = client.call(CreateAclsRequest(creations=[AclCreation(*acl) for acl in acls]), 3)
        assert {result.error_code for result in answer.results} == {0}
        for key_type, name in ((0, GROUP), (1, TRANSACTION)):
            find = build(
                KINDS_BY_NAME["FindCoordinatorRequest"], {"key_type": key_type, "coordinator_keys": [name]}
            )
            wait_for(lambda find=find: client.call(find, 4).coordinators[0].error_code == 0)


def verdicts(bootstrap: str) -> Iterator[dict[str, Any]]:
    """Ask everything as every user, each on one connection."""
    for user in USERS:
        client = logged_in(bootstrap, user)
        for number, (name, version, _) in enumerate(REQUESTS):
            try:
                said = verdict(client.call(request(number), version))
            except ConnectionResetError:
                said, client = ["closed"], logged_in(bootstrap, user)
            yield {"request": f"{number} {name} {version}", "user": user, "verdict": said}
        client.close()


def kafkas_verdicts() -> Iterator[dict[str, Any]]:
    """Ask Apache Kafka. Raises Unavailable where it cannot be had."""
    with RealKafka(KAFKA_4, listeners=["SASL_PLAINTEXT"], properties=KAFKA_SETTINGS) as kafka:
        prepare(kafka.bootstrap)
        yield from verdicts(f"127.0.0.1:{kafka.listener_ports['SASL_PLAINTEXT']}")


if __name__ == "__main__":
    GOLDEN.write_text("".join(json.dumps(row) + "\n" for row in kafkas_verdicts()))
