"""What a SELECT asks of topics: which tables it names, and what its conditions say about records. Pure.

DuckDB parses the statement (`json_serialize_sql`); here its tree is read. A condition is used only if every
row of the result must meet it: one side of AND at the top of the WHERE of a SELECT over that table alone.
DuckDB tests all conditions again, so what is not understood here costs time, never rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Tree = dict[str, Any]
Evaluate = Callable[[Tree], object]

_SURE_TEXT = re.compile(r"[A-Za-z0-9 _.:@#-]+")
_LETTER = re.compile(r"[A-DF-Za-df-z]")
_CONSTANT_FUNCTIONS = {
    *("+", "-", "now", "today", "get_current_timestamp", "current_timestamp", "trunc", "make_timestamp"),
    *("to_seconds", "to_minutes", "to_hours", "to_days", "to_weeks", "to_months", "epoch_ms"),
}
_FLIPPED = {
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_EQUAL": "COMPARE_EQUAL",
}
JSON_ESCAPE = b"\\u"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that every record of a result meets. Bounds are inclusive; None is no bound."""

    offset_min: int | None = None
    offset_max: int | None = None
    time_min: object = None
    time_max: object = None
    partitions: frozenset[int] | None = None
    key: str | None = None
    texts: tuple[tuple[bytes, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TableUse:
    """A table in FROM: its schema ("" if none is named) and name; conditions if it stands alone there."""

    schema: str
    name: str
    where: Tree | None = field(default=None, compare=False)


def table_uses(tree: object) -> Iterator[TableUse]:
    """Yield all tables that the statement names, once for each mention; tables of WITH too."""
    if isinstance(tree, list):
        for child in tree:
            yield from table_uses(child)
    elif isinstance(tree, dict):
        alone = tree.get("from_table") if tree.get("type") == "SELECT_NODE" else None
        if isinstance(alone, dict) and alone.get("type") == "BASE_TABLE" and not alone.get("sample"):
            yield TableUse(alone.get("schema_name", ""), alone["table_name"], tree.get("where_clause"))
            tree = {name: child for name, child in tree.items() if name != "from_table"}
        elif tree.get("type") == "BASE_TABLE":
            yield TableUse(tree.get("schema_name", ""), tree["table_name"])
        for child in tree.values():
            yield from table_uses(child)


def conditions(
    where: Tree | None,
    fields: Mapping[str, str],
    evaluate: Evaluate,
    *,
    has_keys: bool = True,
    has_values: bool = True,
) -> Conditions:
    """Return the conditions in a WHERE. `fields` are the fields of values and their types.

    `evaluate` gives the value of a constant expression, None if it has none. Without `has_keys` or
    `has_values` the condition sees keys or values that a schema decodes, whose bytes say nothing: a number
    stands for the name of an enum, and a default is not stored.
    """
    names = frozenset(name.lower() for name, kind in fields.items() if kind == "VARCHAR")
    reader = _ConditionReader(names, evaluate, has_keys, has_values)
    conditions = Conditions()
    for part in _conjuncts(where):
        conditions = reader.with_part(conditions, part)
    return conditions


def _conjuncts(where: Tree | None) -> Iterator[Tree]:
    if where is None:
        return
    if where.get("type") == "CONJUNCTION_AND":
        for child in where["children"]:
            yield from _conjuncts(child)
    else:
        yield where


@dataclass(frozen=True, slots=True)
class _ConditionReader:
    """Reads conditions. `fields` are the text fields of JSON values, in lower case.

    `has_keys` and `has_values`: the bytes of keys and values are the texts that the condition sees.
    """

    fields: frozenset[str]
    evaluate: Evaluate
    has_keys: bool
    has_values: bool

    def with_part(self, conditions: Conditions, part: Tree) -> Conditions:
        kind = part.get("class")
        if kind == "BETWEEN":
            low = {"type": "COMPARE_GREATERTHANOREQUALTO", "left": part["input"], "right": part["lower"]}
            high = {"type": "COMPARE_LESSTHANOREQUALTO", "left": part["input"], "right": part["upper"]}
            return self._compared(self._compared(conditions, low), high)
        if kind == "COMPARISON":
            return self._compared(conditions, part)
        if part.get("type") == "COMPARE_IN" and _column(part["children"][0]) == "partition":
            numbers = [self._constant(child) for child in part["children"][1:]]
            if all(isinstance(number, int) for number in numbers):
                return _in_partitions(conditions, frozenset(numbers))  # type: ignore[arg-type]
        return conditions

    def _compared(self, conditions: Conditions, part: Tree) -> Conditions:
        """Add a comparison `column operator constant`, or the reverse."""
        operator, left, right = part["type"], part["left"], part["right"]
        if operator not in _FLIPPED:
            return conditions
        if _is_constant(left):
            operator, left, right = _FLIPPED[operator], right, left
        if not _is_constant(right):
            return conditions
        column = _column(left)
        if column == "offset":
            return _bounded_offset(conditions, operator, self._constant(right))
        if column == "timestamp":
            return _bounded_time(conditions, operator, right)
        return (
            self._equal(conditions, left, self._constant(right))
            if operator == "COMPARE_EQUAL"
            else conditions
        )

    def _equal(self, conditions: Conditions, left: Tree, value: object) -> Conditions:
        column = _column(left)
        if column == "partition" and isinstance(value, int):
            return _in_partitions(conditions, frozenset([value]))
        if column == "key" and isinstance(value, str) and not value.startswith("\\x"):
            if not self.has_keys:
                return conditions
            return replace(conditions, key=value) if conditions.key in (None, value) else conditions
        if isinstance(value, str) and self.has_values and (_is_field(left) or column in self.fields):
            return replace(conditions, texts=(*conditions.texts, *_texts(value)))
        return conditions

    def _constant(self, tree: Tree) -> object:
        return self.evaluate(tree) if _is_constant(tree) else None


def _texts(value: str) -> list[tuple[bytes, ...]]:
    """What must stand in a JSON text with this string: itself, or a character of it as \\uXXXX.

    Nothing if it could be a number, which JSON writes in several ways.
    """
    is_sure = _SURE_TEXT.fullmatch(value) and _LETTER.search(value)
    return [(value.encode(), JSON_ESCAPE)] if is_sure else []


def _bounded_offset(conditions: Conditions, operator: str, value: object) -> Conditions:
    if not isinstance(value, int) or isinstance(value, bool):
        return conditions
    low, high = conditions.offset_min, conditions.offset_max
    if operator in ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_EQUAL"):
        low = max(value + (operator == "COMPARE_GREATERTHAN"), low if low is not None else 0)
    if operator in ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_EQUAL"):
        bound = value - (operator == "COMPARE_LESSTHAN")
        high = bound if high is None else min(bound, high)
    return replace(conditions, offset_min=low, offset_max=high)


def _bounded_time(conditions: Conditions, operator: str, expression: Tree) -> Conditions:
    """Add the first bound of each kind; a second one is left to DuckDB."""
    if operator in ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_EQUAL"):
        conditions = replace(conditions, time_min=conditions.time_min or expression)
    if operator in ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_EQUAL"):
        conditions = replace(conditions, time_max=conditions.time_max or expression)
    return conditions


def _in_partitions(conditions: Conditions, numbers: frozenset[int]) -> Conditions:
    return replace(
        conditions, partitions=numbers if conditions.partitions is None else conditions.partitions & numbers
    )


def _column(tree: Tree) -> str | None:
    """The name of a column, lower case, without its table; None if it is something else."""
    if tree.get("class") != "COLUMN_REF":
        return None
    names: list[str] = tree["column_names"]
    return names[-1].lower()


def _is_field(tree: Tree) -> bool:
    """Whether it is `value->>'name'`, or a field of a JSON value."""
    if tree.get("class") != "FUNCTION" or tree.get("function_name") not in ("->>", "json_extract_string"):
        return False
    given = tree.get("arguments") or tree.get("children") or []
    first = given[0].get("expression", given[0]) if given else {}
    return _column(first) == "value"


def _is_constant(tree: object) -> bool:
    """Whether it has a value without any row, the same each time apart from the clock."""
    if isinstance(tree, list):
        return all(map(_is_constant, tree))
    if not isinstance(tree, dict):
        return True
    if tree.get("class") in ("COLUMN_REF", "SUBQUERY", "PARAMETER", "STAR", "LAMBDA", "WINDOW"):
        return False
    if tree.get("class") == "FUNCTION" and tree.get("function_name") not in _CONSTANT_FUNCTIONS:
        return False
    return all(_is_constant(child) for child in tree.values())
