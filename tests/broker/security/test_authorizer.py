"""ACLs decide as Kafka's StandardAuthorizer: literal, prefixed, wildcard, hosts, deny, implied rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.handlers.registry import SERVED
from ottla.broker.security.access_table import ACCESS
from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.principal import ANONYMOUS, CertificateNames, Principal
from ottla.broker.settings.security_settings import AuthorizerSettings
from ottla.broker.storage.catalog import Catalog
from ottla.model.acls import Acl, AclFilter, PatternType, Permission, ResourceType
from ottla.model.errors import ConfigError
from ottla.model.permissions import Operation
from ottla.wire.registry import api

ANN, BOB, ROOT = (Principal("User", name) for name in ("ann", "bob", "root"))
HOST = "10.0.0.1"
ALL = 2


def acl(
    name: str,
    operation: int = Operation.READ,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:ann",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern, principal, host, operation, permission)


def authorizer(tmp_path: Path, *acls: Acl, allows_if_no_acl: bool = False) -> Authorizer:
    settings = AuthorizerSettings(
        is_on=True, super_users=frozenset({"User:root"}), allows_if_no_acl=allows_if_no_acl
    )
    made = Authorizer(settings, Catalog(tmp_path))
    made.create(acls)
    return made


def reads(rules: Authorizer, who: Principal, name: str, operation: Operation = Operation.READ) -> bool:
    return rules.allows(who, HOST, operation, ResourceType.TOPIC, name)


PREFIX, DENY = PatternType.PREFIXED, Permission.DENY


@pytest.mark.parametrize(
    ("acls", "who", "name", "expected"),
    [
        ([], ANN, "orders", False),
        ([], ROOT, "orders", True),
        ([acl("orders")], ANN, "orders", True),
        ([acl("orders")], BOB, "orders", False),
        ([acl("orders")], ANN, "orders2", False),
        ([acl("ord", pattern=PREFIX)], ANN, "orders", True),
        ([acl("ord", pattern=PREFIX)], ANN, "or", False),
        ([acl("*")], ANN, "orders", True),
        ([acl("*", pattern=PREFIX)], ANN, "orders", False),
        ([acl("orders", principal="User:*")], BOB, "orders", True),
        ([acl("orders", host=HOST)], ANN, "orders", True),
        ([acl("orders", host="10.0.0.2")], ANN, "orders", False),
        ([acl("orders", ALL)], ANN, "orders", True),
        ([acl("orders"), acl("ord", permission=DENY, pattern=PREFIX)], ANN, "orders", False),
        ([acl("orders"), acl("*", permission=DENY)], ANN, "orders", False),
        ([acl("orders"), acl("orders", permission=DENY, principal="User:bob")], ANN, "orders", True),
        ([acl("orders"), acl("orders", permission=DENY, host="10.0.0.2")], ANN, "orders", True),
        ([acl("orders", permission=DENY)], ROOT, "orders", True),
    ],
)
def test_decisions(acls: list[Acl], who: Principal, name: str, *, expected: bool, tmp_path: Path) -> None:
    assert reads(authorizer(tmp_path, *acls), who, name) is expected


@pytest.mark.parametrize("held", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_some_operations_imply_describe_where_they_are_allowed(held: Operation, tmp_path: Path) -> None:
    rules = authorizer(tmp_path, acl("orders", held))
    assert reads(rules, ANN, "orders", Operation.DESCRIBE)
    assert not reads(rules, ANN, "orders", Operation.DESCRIBE_CONFIGS)
    rules.create([acl("orders", Operation.DESCRIBE), acl("orders", held, DENY)])
    assert reads(rules, ANN, "orders", Operation.DESCRIBE)  # what denies implies nothing


def test_everyone_may_where_no_rule_is_if_so_set(tmp_path: Path) -> None:
    rules = authorizer(tmp_path, acl("orders"), allows_if_no_acl=True)
    assert reads(rules, BOB, "other")
    assert not reads(rules, BOB, "orders")


def test_rules_survive_a_restart_and_changes_count_at_once(tmp_path: Path) -> None:
    rules = authorizer(tmp_path, acl("orders"))
    assert reads(rules, ANN, "orders")
    assert reads(Authorizer(AuthorizerSettings(is_on=True), Catalog(tmp_path)), ANN, "orders")
    rules.delete(rules.matching(AclFilter(1, "orders", 3, None, None, 1, 1)))
    assert not reads(rules, ANN, "orders")
    assert not reads(Authorizer(AuthorizerSettings(is_on=True), Catalog(tmp_path)), ANN, "orders")


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (PatternType.LITERAL, "orders", {"orders"}),
        (PatternType.PREFIXED, "ord", {"ord"}),
        (PatternType.PREFIXED, "orders", set()),
        (PatternType.MATCH, "orders", {"orders", "ord", "*"}),
        (PatternType.ANY, "orders", {"orders"}),
        (PatternType.ANY, None, {"orders", "ord", "*"}),
        (PatternType.LITERAL, None, {"orders", "*"}),
    ],
)
def test_filters(pattern: PatternType, name: str | None, expected: set[str], tmp_path: Path) -> None:
    rules = authorizer(tmp_path, acl("orders"), acl("ord", pattern=PREFIX), acl("*"))
    wanted = AclFilter(ResourceType.TOPIC, name, pattern, None, None, 1, 1)
    assert {acl.name for acl in rules.matching(wanted)} == expected


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("orders", Operation.WRITE)], True),
        ([acl("orders", Operation.READ)], False),
        ([acl("orders", Operation.WRITE), acl("orders", Operation.WRITE, DENY)], False),
        ([acl("orders", Operation.WRITE), acl("or", Operation.WRITE, DENY, pattern=PREFIX)], False),
        ([acl("or", Operation.WRITE, pattern=PREFIX), acl("orders", Operation.WRITE, DENY)], True),
        ([acl("orders", Operation.WRITE), acl("*", ALL, DENY)], False),
    ],
)
def test_whether_any_topic_may_be_written(acls: list[Acl], *, expected: bool, tmp_path: Path) -> None:
    rules = authorizer(tmp_path, *acls)
    assert rules.allows_any(ANN, HOST, Operation.WRITE, ResourceType.TOPIC) is expected


def test_the_table_has_a_row_for_every_handler() -> None:
    assert [api(key).name for key in SERVED if key not in ACCESS] == []


SUBJECT = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "A, B"),),
        (("organizationalUnitName", "Users"),),
        (("commonName", "Ann"),),
    )
}


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Ann,OU=Users,O=A\\, B,C=DE"),
        ("RULE:^CN=(.*?),OU=Users.*$/$1/", "Ann"),
        ("RULE:^CN=(.*?),OU=Users.*$/$1@kafka/L", "ann@kafka"),
        ("RULE:^CN=(.*?),OU=Robots.*$/$1/, RULE:^CN=(.*?),.*$/$1/U, DEFAULT", "ANN"),
        ("RULE:^nobody$/x/,DEFAULT", "CN=Ann,OU=Users,O=A\\, B,C=DE"),
    ],
)
def test_the_name_in_a_certificate_becomes_a_user(rules: str, name: str) -> None:
    assert CertificateNames(rules).principal(SUBJECT) == Principal("User", name)


def test_a_certificate_that_no_rule_fits_names_nobody() -> None:
    assert CertificateNames("RULE:^nobody$/x/").principal(SUBJECT) is None
    assert CertificateNames("DEFAULT").principal({}) == ANONYMOUS
    for bad in ("RULE:a/b", "RULE:(/x/", "OTHER"):
        with pytest.raises(ConfigError, match=r"ssl.principal.mapping.rules"):
            CertificateNames(bad)
