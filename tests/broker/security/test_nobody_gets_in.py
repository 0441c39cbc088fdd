"""Nobody gets in: tries that are generated from the tables, none of which may be answered.

Before a login: every API and version of the golden messages, by where the login stands and how they come.
After it, without rights: every API and version. A nightly run makes 12,000 tries, a normal run some of them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.registry import SERVED
from ottla.broker.security.sasl_session import AUTHENTICATE_KEY, HANDSHAKE_KEY, VERSIONS_KEY
from ottla.model.error_codes import Code
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from ottla.wire.schema import Request, fields
from tests.broker.security.secured import MECHANISMS, exchange, log_in, properties, sasl_client
from tests.broker.wire_client import Client
from tests.client.certificates import Certificates
from tests.scale import REPLAY, seeded, sized
from tests.waiting import wait_for
from tests.wire.messages import Row, rows_of

SASL_KEYS = {HANDSHAKE_KEY, VERSIONS_KEY, AUTHENTICATE_KEY}
TRIES = sized(700, 12_000)
RIGHTLESS = sized(150, 3_000)
DENIED = {
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Code.OPERATION_NOT_ATTEMPTED,
    Code.FETCH_SESSION_ID_NOT_FOUND,  # with ids of topics that there are not
    Code.INVALID_REQUEST,  # of a coordinator that there is not: whoever asks
}
STAGES = (
    "connected",
    "handshake",
    "bare handshake",
    "half a login",
    "failed login",
    "cut token",
    "empty token",
    "another mechanism's token",
    "replayed login",
    "unknown mechanism",
    "handshake twice",
    "downgraded handshake",
)
FORMS = ("whole", "cut", "twice", "slow")


def requests() -> list[Row]:
    """Every request that the broker serves, in every version that Kafka's own classes have written."""
    return [
        row
        for row in rows_of("full", "default")
        if issubclass(row.kind, Request) and row.data is not None
        if row.kind.API.key in SERVED and row.version in SERVED[row.kind.API.key]
    ]


def frame(row: Row, correlation_id: int = 7) -> bytes:
    """The bytes of a request with its header."""
    api = row.kind.API
    header = struct.pack(">hhih4s", api.key, row.version, correlation_id, 4, b"evil")
    if api.flexible(row.version):
        header += b"\0"
    body = header + (row.data or b"")
    return len(body).to_bytes(4, "big") + body


Recorded = dict[str, list[bytes]]


def tokens_of_a_login(broker: EmbeddedBroker, mechanism: str) -> list[bytes]:
    """What a client has sent that got in, as somebody who listens to the line would have it."""
    tokens = exchange(mechanism)
    sent = [tokens.first()]
    with sasl_client(broker) as client:
        client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        while True:
            answer = client.call(SaslAuthenticateRequest(auth_bytes=sent[-1]))
            assert not answer.error_code
            token = tokens.next(answer.auth_bytes)
            if token is None:
                return sent
            sent.append(token)


def _replayed(mechanism: str, recorded: Recorded) -> list[bytes]:
    """PLAIN and OAUTHBEARER send the secret itself: whoever has it is in. So it is replayed to SCRAM."""
    return recorded[mechanism] if mechanism.startswith("SCRAM") else recorded["SCRAM-SHA-256"]


WRONG_TOKENS: dict[str, Callable[[str, Recorded], list[bytes]]] = {
    "cut token": lambda mechanism, recorded: [recorded[mechanism][-1][:-3]],
    "empty token": lambda _mechanism, _recorded: [b""],
    "another mechanism's token": lambda mechanism, recorded: [
        recorded["PLAIN" if mechanism != "PLAIN" else "SCRAM-SHA-512"][0]
    ],
    "replayed login": _replayed,
}


def tries(count: int) -> Iterator[tuple[Row, str, str, str]]:
    chance = seeded("before the login")
    every = [row for row in requests() if row.message.API.key not in SASL_KEYS]
    for _ in range(count):
        yield chance.choice(every), chance.choice(MECHANISMS), chance.choice(STAGES), chance.choice(FORMS)


def test_nothing_is_answered_before_the_login(secured: EmbeddedBroker) -> None:
    answered = []
    recorded = {mechanism: tokens_of_a_login(secured, mechanism) for mechanism in MECHANISMS}
    for row, mechanism, stage, form in tries(TRIES):
        with sasl_client(secured) as client:
            begin(client, stage, mechanism, recorded)
            if more := answer_to(client, row, form):
                answered.append((row.label[:80], mechanism, stage, form, more[:40]))
    assert answered == [], REPLAY


def begin(client: Client, stage: str, mechanism: str, recorded: Recorded) -> None:
    """Bring a connection to where its login stands. The broker may have hung up by then."""
    with suppress(ConnectionResetError, BrokenPipeError):
        if stage in WRONG_TOKENS:
            client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
            for token in WRONG_TOKENS[stage](mechanism, recorded):
                client.call(SaslAuthenticateRequest(auth_bytes=token))
        elif stage == "unknown mechanism":
            client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        elif stage in ("handshake twice", "downgraded handshake"):
            client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
            client.call(SaslHandshakeRequest(mechanism="PLAIN"), 0 if stage == "downgraded handshake" else 1)
        else:
            begin_as_usual(client, stage, mechanism)


def begin_as_usual(client: Client, stage: str, mechanism: str) -> None:
    if stage in ("handshake", "half a login"):
        client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
    if stage == "half a login" and mechanism.startswith("SCRAM"):
        client.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=ann,r=abc"))
    if stage == "bare handshake":
        client.call(SaslHandshakeRequest(mechanism=mechanism), 0)
    if stage == "failed login":
        log_in(client, mechanism, password="wrong")


def answer_to(client: Client, row: Row, form: str) -> bytes:
    """What comes back for a request until the broker hangs up; b"" if nothing does."""
    data = frame(row)
    raw: socket.socket = client._socket
    try:
        if form == "cut":
            raw.sendall(data[: max(5, len(data) // 2)])
        elif form == "slow":
            for at in range(0, min(len(data), 40), 8):
                raw.sendall(data[at : at + 8])
            raw.sendall(data[40:])
        elif form == "twice":
            raw.sendall(data + data)
        else:
            raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        return raw.recv(1 << 16)
    except (BrokenPipeError, ConnectionResetError, OSError):
        return b""


def codes(message: Any) -> Iterator[int]:
    """Every error code of an answer."""
    for field in fields(type(message)):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for item in value:
                if hasattr(item, "__match_args__"):
                    yield from codes(item)


@pytest.fixture(scope="module")
def strict(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    more = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    more["super.users"] = "User:ann"
    place: Path = tmp_path_factory.mktemp("strict")
    with EmbeddedBroker(place, properties={**properties(certificates), **more}) as broker:
        yield broker


OPEN = {"ApiVersionsRequest", "SaslHandshakeRequest", "SaslAuthenticateRequest", "DescribeClusterRequest"}
OPEN |= {"GetTelemetrySubscriptionsRequest", "PushTelemetryRequest"}
FILTERED = {
    "ListGroupsRequest": "groups",
    "DescribeLogDirsRequest": "results",
    "ListTransactionsRequest": "transaction_states",
}


def test_a_user_without_rights_gets_nothing_done(strict: EmbeddedBroker) -> None:
    """Who is logged in and has no ACL gets errors about that, and nothing else."""
    silent = ("ProduceRequest", "default")  # acks=0 and no topic: nothing to refuse, and no answer
    every = [row for row in requests() if row.kind.__name__ not in OPEN]
    every = [row for row in every if (row.kind.__name__, row.variant) != silent]
    chance = seeded("without rights")
    answered = []
    for row in chance.choices(every, k=RIGHTLESS):
        with sasl_client(strict) as client:
            assert not log_in(client, "PLAIN", "bob", "bob-secret").error_code
            try:
                request: Any = row.message
                answer: Any = client.call(request, row.version)
            except (ConnectionResetError, BrokenPipeError, OSError):
                continue  # acks=0: there is no answer that could refuse
            found = set(codes(answer))
            listed = getattr(answer, FILTERED[row.kind.__name__]) if row.kind.__name__ in FILTERED else []
            is_empty = row.variant == "default" or row.kind.__name__ in FILTERED
            if not (found - {0}) <= DENIED or listed or not (found & DENIED or is_empty):
                answered.append((row.label[:80], {Code.of(code).name for code in found}))
    assert answered == [], REPLAY
    with sasl_client(strict) as root:
        log_in(root, "PLAIN")
        assert root.call(MetadataRequest(topics=None)).topics == []  # nothing was made


def test_who_has_not_logged_in_holds_little(certificates: Certificates) -> None:
    """Many that begin a large token and stop: what they hold has a limit, and others log in meanwhile."""
    limits = {"socket.request.max.bytes": str(1 << 20), "queued.max.request.bytes": str(4 << 20)}
    begun = struct.pack(">ihhih", 500_000, AUTHENTICATE_KEY, 2, 1, -1) + bytes(400_000)
    with (
        EmbeddedBroker(properties={**properties(certificates), **limits}) as broker,
        ExitStack() as opened,
    ):
        for _ in range(40):
            client = opened.enter_context(sasl_client(broker))
            with suppress(OSError):
                client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                client._socket.settimeout(0.5)
                client._socket.sendall(begun)
        requests = broker._running().cluster.memory.requests
        wait_for(lambda: requests.used <= requests.limit == 4 << 20, "what is held is below the limit")
        assert requests.refused
        with sasl_client(broker) as honest:
            assert not log_in(honest, "PLAIN").error_code
