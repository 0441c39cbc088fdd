from __future__ import annotations

import pytest

from ottla.client.client_config import (
    CLIENT_PROPERTIES,
    ClientConfig,
    SaslMechanism,
    SecurityConfig,
)
from ottla.model.address import Address, parse_address
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, PASSWORD, TEXT, TEXTS, Property, merged, parse_properties
from ottla.security.security_protocol import SecurityProtocol


def test_names_may_be_dotted_or_snake_case_and_values_texts_or_numbers() -> None:
    dotted = ClientConfig.from_properties(
        {"bootstrap.servers": "a:1, b:2", "client.id": "x", "request.timeout.ms": "7"}
    )
    snake = ClientConfig.from_properties(
        {"bootstrap_servers": ["a:1", "b:2"], "client_id": "x", "request_timeout_ms": 7}
    )
    assert dotted == snake
    assert dotted.bootstrap == (Address("a", 1), Address("b", 2))
    assert (dotted.client_id, dotted.request_timeout_ms) == ("x", 7)


def test_defaults_of_the_table_are_those_of_the_class() -> None:
    parsed = ClientConfig.from_properties({"bootstrap.servers": "a:1"})
    assert parsed == ClientConfig(bootstrap=(Address("a", 1),))


def test_an_unknown_name_tells_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"boostrap.servers is no setting .*did you mean bootstrap.servers\?"
    ):
        ClientConfig.from_properties({"boostrap.servers": "a:1"})
    with pytest.raises(ConfigError, match=r"request.timeout.ms"):
        ClientConfig.from_properties({"request_timeout": 1})


def test_a_name_of_another_client_tells_what_to_write_here() -> None:
    with pytest.raises(ConfigError, match=r"give ssl.ca.location"):
        ClientConfig.from_properties({"bootstrap.servers": "a:1", "ssl_cafile": "x.pem"})
    with pytest.raises(ConfigError, match=r"sasl.jaas.config: it must be: class of a login module"):
        ClientConfig.from_properties({"bootstrap.servers": "a:1", "sasl_jaas_config": "…"})


def test_settings_are_a_mapping_keywords_or_both() -> None:
    assert merged({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert merged(None, {"b": 2}) == {"b": 2}
    with pytest.raises(ConfigError, match=r"as in bootstrap_servers='HOST:PORT', and 'kafka:9092' has none"):
        merged("kafka:9092", {})


def test_one_setting_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"client_id and client.id are the same"):
        ClientConfig.from_properties({"bootstrap.servers": "a:1", "client.id": "x", "client_id": "x"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("request.timeout.ms", "soon", "request.timeout.ms=soon: it must be a whole number"),
        ("request.timeout.ms", True, "request.timeout.ms=true: it must be a whole number"),
        ("request.timeout.ms", 0, "it must be at least 1"),
        ("client.id", 3, "client.id=3: it must be a text"),
        ("allow.auto.create.topics", "yes", "it must be true or false"),
        ("security.protocol", "TLS", "PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"),
        ("broker.version", "2.8", "broker.version: .*cannot be pinned"),
        ("bootstrap.servers", "kafka", "bootstrap.servers: 'kafka' is no address"),
        ("bootstrap.servers", " , ", "no address"),
        ("sasl.password", 1234, "sasl.password=…: it must be a text"),
    ],
)
def test_a_wrong_value_names_setting_value_and_remedy(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClientConfig.from_properties({"bootstrap.servers": "a:1"} | {name: value})


def test_without_an_address_there_is_no_client() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap.servers is not set"):
        ClientConfig.from_properties({})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka-1.example:9092", Address("kafka-1.example", 9092)),
        ("[::1]:9092", Address("::1", 9092)),
        ("PLAINTEXT://kafka:9092", Address("kafka", 9092)),
        (" 10.0.0.1:1 ", Address("10.0.0.1", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", ["", "kafka", "kafka:0", "kafka:65536", ":9092", "a:b:c", "::1:9092"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address(text)


def test_security_is_read_and_its_passwords_are_in_no_text() -> None:
    config = ClientConfig.from_properties(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "scram-sha-512",
            "sasl.username": "ann",
            "sasl.password": " s3cret ",
            "ssl.key.password": "k3y",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert config.security.protocol is SecurityProtocol.SASL_SSL
    assert config.security.mechanism is SaslMechanism.SCRAM_SHA_512
    assert config.security.password == " s3cret "
    assert not config.security.checks_host_name
    assert "s3cret" not in f"{config!r} {config} {config.security!r}"
    assert "k3y" not in repr(config)


def test_a_login_needs_a_name_and_a_password() -> None:
    with pytest.raises(ConfigError, match=r"sasl.username and sasl.password"):
        SecurityConfig(protocol=SecurityProtocol.SASL_SSL, username="ann")
    with pytest.raises(ConfigError, match=r"ssl.certificate.location"):
        SecurityConfig(protocol=SecurityProtocol.SSL, key_location="key.pem")


def test_other_tables_begin_with_the_client_properties() -> None:
    table = (*CLIENT_PROPERTIES, Property("fetch.min.bytes", INT, 1, "doc", minimum=0))
    values = parse_properties(table, {"bootstrap.servers": "a:1", "fetch_min_bytes": "64"})
    assert values["fetch_min_bytes"] == 64
    assert ClientConfig.from_values(values).bootstrap == (Address("a", 1),)
    with pytest.raises(ConfigError, match=r"did you mean fetch.min.bytes\?"):
        parse_properties(table, {"fetch.minbytes": 1})


def test_every_row_has_a_text_and_names_that_are_its_own() -> None:
    names = [name for row in CLIENT_PROPERTIES for name in row.names]
    assert len(names) == len(set(names))
    assert all(row.doc.endswith(".") for row in CLIENT_PROPERTIES)
    assert {row.kind for row in CLIENT_PROPERTIES} >= {BOOLEAN, INT, PASSWORD, TEXT, TEXTS}
