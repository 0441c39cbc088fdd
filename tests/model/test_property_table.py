"""One table of settings for the broker, the clients and Spark."""

from __future__ import annotations

import pytest

from ottla.model.errors import ConfigError
from ottla.model.property_table import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    TEXT,
    TEXTS,
    Kind,
    Property,
    parse_properties,
    text_of,
)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (INT, " +7 ", 7),
        (INT, -(2**31), -(2**31)),
        (LONG, 2**63 - 1, 2**63 - 1),
        (DOUBLE, ".5", 0.5),
        (DOUBLE, 1, 1.0),
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, False, False),
        (TEXT, " a b ", "a b"),
        (PASSWORD, " a b ", " a b "),
        (LIST, "a , ,b", ("a", "", "b")),
        (TEXTS, "a , ,b", ("a", "b")),
        (TEXTS, ["a", "b"], ("a", "b")),
    ],
)
def test_texts_and_python_values_are_read_alike(kind: Kind, given: object, value: object) -> None:
    assert Property("x", kind, None, "doc").parse(given) == value


@pytest.mark.parametrize(
    ("row", "given", "message"),
    [
        (
            Property("a.ms", INT, 1, "", unit="ms"),
            2**31,
            "a.ms=2147483648: it must be a whole number of 32 bits (ms)",
        ),
        (Property("a", INT, 1, ""), True, "a=true: it must be a whole number of 32 bits"),
        (Property("a", INT, 1, "", minimum=1), 0, "a=0: it must be at least 1"),
        (Property("a", INT, 1, "", maximum=5), "6", "a=6: it must be at most 5"),
        (Property("a", TEXT, "", "", choices=("x", "y")), "z", "a=z: it must be x or y"),
        (Property("a", LIST, (), "", pattern="[0-9]"), "1,b", "a=1,b: it must match [0-9]"),
        (Property("a", PASSWORD, "", ""), 1, "a=…: it must be a text"),
        (Property("a", TEXTS, (), ""), [1], "a=[1]: it must be a list, or a text with commas"),
    ],
)
def test_an_error_names_setting_value_and_remedy(row: Property, given: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        row.parse(given)
    assert str(caught.value) == message


def test_a_check_may_convert_and_refuse() -> None:
    def even(value: int) -> str:
        if value % 2:
            raise ConfigError("odd numbers do not work")
        return f"<{value}>"

    table = (Property("a.b", INT, "<0>", "doc", check=even),)
    assert parse_properties(table, {"a_b": "2"}) == {"a_b": "<2>"}
    assert parse_properties(table, {}) == {"a_b": "<0>"}
    with pytest.raises(ConfigError, match=r"^a\.b: odd numbers do not work$"):
        parse_properties(table, {"a.b": 1})


def test_values_are_written_as_kafka_writes_them() -> None:
    assert [text_of(value) for value in (True, 5, ("a", "b"), frozenset({"b", "a"}), None)] == [
        "true",
        "5",
        "a,b",
        "a,b",
        None,
    ]
