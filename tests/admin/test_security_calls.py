"""ACLs, passwords and client quotas through Admin, on the embedded broker and on a real Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from ottla import Code, EmbeddedBroker, KafkaError, Producer, aio
from ottla.admin import (
    Acl,
    AclFilter,
    Admin,
    Operation,
    PatternType,
    Permission,
    QuotaEntity,
    ResourceType,
    ScramPassword,
    ScramRemoval,
)
from ottla.cli.main import main
from tests.both_faces import FACES, opened
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ORDERS = (ResourceType.TOPIC, "orders", PatternType.LITERAL)
RULE = Acl(*ORDERS, "User:ann", "*", Operation.READ, Permission.ALLOW)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:ann",
    }
    with EmbeddedBroker(properties=properties) as broker:
        yield broker


@pytest.fixture(params=FACES)
def admin(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Admin]:
    with opened(request.param, Admin, aio.Admin, bootstrap_servers=broker.bootstrap) as admin:
        yield admin


def test_rules_are_created_found_and_deleted(admin: Admin) -> None:
    other = RULE._replace(name="bills", permission=Permission.DENY)
    admin.create_acls([RULE, other])
    assert admin.describe_acls() == (other, RULE)
    assert admin.describe_acls(AclFilter(permission=Permission.DENY)) == (other,)
    wanted = AclFilter(*ORDERS)
    assert admin.delete_acls([wanted, AclFilter(principal="User:bob")]) == {
        wanted: (RULE,),
        AclFilter(principal="User:bob"): (),
    }
    assert admin.describe_acls() == (other,)
    with pytest.raises(KafkaError, match="Invalid resource type"):
        admin.create_acls(RULE._replace(resource_type=1))


def test_without_an_authorizer_the_error_says_so() -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        with pytest.raises(KafkaError) as refused:
            admin.describe_acls()
        assert refused.value.code == Code.SECURITY_DISABLED


def test_a_user_gets_a_password_and_logs_in(broker: EmbeddedBroker, admin: Admin) -> None:
    admin.alter_user_scram_credentials(ScramPassword("ann", "SCRAM-SHA-256", "s3cret", iterations=5000))
    assert admin.describe_user_scram_credentials() == {"ann": {"SCRAM-SHA-256": 5000}}
    login = {
        "bootstrap.servers": broker.bootstrap_at("SECURE"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "s3cret",
    }
    with Producer(login) as producer:
        producer.send("orders", "one coffee")
    admin.alter_user_scram_credentials([ScramRemoval("ann", "SCRAM-SHA-256")])
    assert admin.describe_user_scram_credentials(["ann"]) == {}
    with pytest.raises(KafkaError) as refused:
        admin.alter_user_scram_credentials(ScramRemoval("ann", "SCRAM-SHA-256"))
    assert refused.value.code == Code.RESOURCE_NOT_FOUND
    assert "s3cret" not in repr(ScramPassword("ann", "SCRAM-SHA-256", "s3cret"))


def quotas_are_kept(admin: Admin) -> None:
    ann, both, default = QuotaEntity(user="ann"), QuotaEntity("ann", "tool"), QuotaEntity(client_id="")
    admin.alter_client_quotas(
        {
            ann: {"producer_byte_rate": 1000},
            both: {"consumer_byte_rate": 5},
            default: {"request_percentage": 50},
        }
    )
    # Kafka answers before each of its brokers knows.
    found = wait_for(partial(admin.describe_client_quotas, any_of=["user"]), "the quotas are known")
    assert found == {ann: {"producer_byte_rate": 1000.0}, both: {"consumer_byte_rate": 5.0}}
    assert admin.describe_client_quotas(QuotaEntity(user="ann"), strict=True).keys() == {ann}
    assert admin.describe_client_quotas(default) == {default: {"request_percentage": 50.0}}
    removed: dict[str, float | None] = {"producer_byte_rate": None, "consumer_byte_rate": None}
    admin.alter_client_quotas({ann: removed, both: removed, default: {"request_percentage": None}})
    wait_for(lambda: not admin.describe_client_quotas(), "the quotas are gone")


def test_quotas_are_kept(admin: Admin) -> None:
    quotas_are_kept(admin)


def test_the_same_calls_on_a_real_kafka(real_kafka: Callable[[str], RealKafka]) -> None:
    with Admin(bootstrap_servers=real_kafka(KAFKA_4).bootstrap) as admin:
        quotas_are_kept(admin)
        admin.alter_user_scram_credentials(ScramPassword("asked", "SCRAM-SHA-512", "s3cret"))
        known = wait_for(partial(admin.describe_user_scram_credentials, ["asked"]), "the password is known")
        assert known == {"asked": {"SCRAM-SHA-512": 4096}}
        admin.alter_user_scram_credentials(ScramRemoval("asked", "SCRAM-SHA-512"))
        with pytest.raises(KafkaError) as refused:
            admin.create_acls(RULE)
        assert refused.value.code == Code.SECURITY_DISABLED


def test_the_command_adds_lists_and_removes(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(*words: str) -> list[dict[str, str]]:
        code = main(["acls", *words, "--bootstrap", broker.bootstrap, "--format", "json"])
        printed = capsys.readouterr().out
        assert code == 0, printed
        found: list[dict[str, str]] = json.loads(printed)["rows"]
        return found

    added = rows("add", "ann", "read", "describe-configs", "--topic", "team-", "--prefixed")
    assert [(row["principal"], row["operation"], row["pattern"]) for row in added] == [
        ("User:ann", "read", "prefixed"),
        ("User:ann", "describe_configs", "prefixed"),
    ]
    rows("add", "*", "all", "--cluster", "--deny", "--host", "10.0.0.1")
    assert [row["permission"] for row in rows("list")] == ["allow", "allow", "deny"]
    assert rows("remove", "ann", "--dry-run") == rows("remove", "ann")
    assert [row["resource"] for row in rows()] == ["cluster"]
