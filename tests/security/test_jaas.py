"""JAAS texts as users paste them."""

from __future__ import annotations

import pytest

from ottla.model.errors import ConfigError
from ottla.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="ann" password="s3cret";', {"username": "ann", "password": "s3cret"}),
        (f"{PLAIN} required username='ann' password='a b' ;", {"username": "ann", "password": "a b"}),
        (f"  {PLAIN}\n   REQUIRED\n username=ann\n password=s;  ", {"username": "ann", "password": "s"}),
        (f'{PLAIN} required password="a\\"b\\\\c;=";', {"password": 'a"b\\c;='}),
        (f'{PLAIN} required user_ann="" user_bob = "x";', {"user_ann": "", "user_bob": "x"}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_options_are_read(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert (module.simple_name, module.options) == ("PlainLoginModule", options)
    assert "s3cret" not in repr(module)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        f"{PLAIN};",
        f'{PLAIN} required password="s3cret"',
        f'{PLAIN} sometimes password="s3cret";',
        f'{PLAIN} required password="s3cret;',
        f"{PLAIN} required password s3cret;",
        f"{PLAIN} required password==s3cret;",
        "x" * 100_000,
    ],
)
def test_what_cannot_be_read_is_refused_without_repeating_secrets(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl.jaas.config") as refused:
        parse_jaas(text)
    assert "s3cret" not in str(refused.value)
