"""Every client on secured listeners: each mechanism over TLS and without it, and certificates.

One process a client goes through all logins: it produces a record and reads it in a group. ACLs give the user
its rights, so that a client that got in as somebody else fails. A wrong password must not get in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import BrokerSecurity, EmbeddedBroker
from ottla.security.client_login import properties_text
from tests.broker.security.secured import oauth_token
from tests.compatibility.catalog import go_client, java_program, node_client, python_client
from tests.compatibility.conversation import converse
from tests.compatibility.targets import Address
from tests.compatibility.verdicts import PASSED
from tests.scale import SOAK
from tools.peer_cache import KAFKA_3, KAFKA_CLIENTS, Unavailable

pytestmark = pytest.mark.each_alone

USER, PASSWORD = "ann", 's3cret, "quoted" = \\x'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
Login = dict[str, Any]
TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    security = BrokerSecurity(
        users={"root": "root-secret", USER: PASSWORD},
        protocols=("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        acls=(f"{USER} ALL topic *", f"{USER} ALL group *"),
    )
    mechanisms = {"sasl.enabled.mechanisms": ",".join(MECHANISMS), "offsets.topic.num.partitions": "2"}
    with EmbeddedBroker(security=security, properties=mechanisms, brokers=2) as broker:
        yield broker


def logins(broker: EmbeddedBroker, client: str) -> list[Login]:
    """All logins of a client, each with topic and group of its own; the last one has a wrong password."""
    kinds = [(protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]
    kinds = [("SSL", "certificate"), *kinds, ("SASL_SSL", "wrong")]
    made = []
    for number, (protocol, kind) in enumerate(kinds):
        topic = f"{client.replace(' ', '-')}-{number}"
        mechanism = kind if kind in MECHANISMS else "SCRAM-SHA-512"
        made.append(
            {
                "name": f"{protocol} {kind}",
                "bootstrap": broker.bootstrap_at(protocol),
                "protocol": protocol,
                "mechanism": mechanism if protocol != "SSL" else "",
                "user": USER,
                "password": "not it" if kind == "wrong" else PASSWORD,
                "token": oauth_token(USER),
                "authority": str(broker.data_dir / "security" / "ca.pem"),
                "certificate": str(broker.data_dir / "security" / f"{USER}.pem"),
                "topic": topic,
                "group": topic,
                "value": f"by {kind} over {protocol}",
                "is_wrong": kind == "wrong",
            }
        )
    return made


def as_file(broker: EmbeddedBroker, client: str, work: Path) -> list[str]:
    path = work / "logins.json"
    path.write_text(json.dumps(logins(broker, client)))
    return [str(path)]


def as_properties(broker: EmbeddedBroker, client: str, work: Path) -> list[str]:
    """A properties file for each login: Java has no reader of JSON."""
    files = []
    for login in logins(broker, client):
        mechanism = login["mechanism"]
        known = "PLAIN" if mechanism in ("", "OAUTHBEARER") else mechanism
        settings = broker.client_settings(USER, listener=login["protocol"], mechanism=known, form="java")
        if mechanism == "OAUTHBEARER":
            settings["sasl.mechanism"] = mechanism
            settings["sasl.jaas.config"] = f'{TOKENS} required unsecuredLoginStringClaim_sub="{USER}";'
        if login["is_wrong"]:
            settings["sasl.jaas.config"] = settings["sasl.jaas.config"].replace("s3cret", "secret")
        work_items = {name: login[name] for name in ("topic", "group", "value")}
        work_items |= {"step": login["name"], "wrong": str(login["is_wrong"])}
        path = work / f"{login['topic']}.properties"
        path.write_text(properties_text(settings | work_items))
        files.append(str(path))
    return files


def python_library(name: str) -> Callable[[], list[str]]:
    return lambda: [*python_client("secured_python.py")(), name]


SECURED: dict[str, tuple[Callable[[], list[str]], Callable[[EmbeddedBroker, str, Path], list[str]]]] = {
    **{name: (python_library(name), as_file) for name in ("confluent-kafka", "kafka-python", "aiokafka")},
    "kafkajs": (node_client("secured_kafkajs.js"), as_file),
    "franz-go": (go_client("securedfranz"), as_file),
    "sarama": (go_client("securedsarama"), as_file),
    "Java client 3.9": (java_program("SecuredSteps", KAFKA_3), as_properties),
    "Java client 4": (java_program("SecuredSteps", KAFKA_CLIENTS), as_properties),
}


@pytest.mark.timeout(600)  # a cold cache costs the download of a peer
@pytest.mark.parametrize("client", SECURED)
def test_a_client_logs_in_by_every_mechanism(client: str, broker: EmbeddedBroker, tmp_path: Path) -> None:
    if client == "Java client 3.9" and not SOAK:
        pytest.skip("in nightly runs: the newer Java client logs in by the same code")
    command, arguments = SECURED[client]
    try:
        line = command()
    except Unavailable as error:
        pytest.skip(f"{client}: {error}")
    report = converse(client, [*line, *arguments(broker, client, tmp_path)], Address(broker.bootstrap))
    failed = [f"{each.step}: {each.detail}" for each in report.verdicts if each.outcome != PASSED]
    assert not failed, "\n".join(failed)
    assert [each.step for each in report.verdicts] == [login["name"] for login in logins(broker, client)]
