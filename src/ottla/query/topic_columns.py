"""What SQL sees of a topic's keys and values: texts, and the fields of values as typed columns.

JSON has its fields by a sample. Avro and Protobuf, found by the frame of a schema registry, have them by
their schemas, and become JSON texts first: from there on all values are the same. Text that is not UTF-8 and
has no schema is written as \\x and hexadecimal digits, so that no record is hidden or refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from ottla.query.json_fields import json_fields
from ottla.query.statements import Conditions, Evaluate, Tree, conditions
from ottla.schemas.decoded import Undecodable
from ottla.schemas.json_texts import FieldTypes, JsonText, JsonTexts

_SQL_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.timestamp("us"): "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class ColumnTexts:
    """How the bytes of a column become text. With `json_texts`, by their schemas if they have one."""

    json_texts: JsonTexts | None = None
    subject: str = ""

    @property
    def is_stored(self) -> bool:
        """Whether the text equals the stored bytes, so that a text can be searched in the bytes."""
        return self.json_texts is None

    def texts(self, column: pa.Array) -> pa.Array:
        """A binary column as text. Raises RegistryFailed."""
        if self.is_stored:
            try:
                return column.cast(pa.string())
            except pa.ArrowInvalid:
                pass
        return pa.array([self._text(value) for value in column.to_pylist()], pa.string())

    def _text(self, value: bytes | None) -> str | None:
        if value is None:
            return None
        if self.json_texts is not None:
            try:
                return self.json_texts.text(value, self.subject).text
            except Undecodable:
                pass
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "\\x" + value.hex()


@dataclass(frozen=True, slots=True)
class TopicColumns:
    """The fields of a topic's values and their types in SQL; how keys and values become text."""

    fields: dict[str, str] = field(default_factory=dict)
    keys: ColumnTexts = ColumnTexts()
    values: ColumnTexts = ColumnTexts()

    def conditions(self, where: Tree | None, evaluate: Evaluate) -> Conditions:
        """Return the conditions in a WHERE about records of the topic; see `statements`."""
        return conditions(
            where,
            self.fields,
            evaluate,
            has_keys=self.keys.is_stored,
            has_values=self.values.is_stored,
        )


def topic_columns(
    topic: str, sample: Iterable[tuple[bytes | None, bytes | None]], json_texts: JsonTexts | None = None
) -> TopicColumns:
    """The columns of a topic with such keys and values. Raises RegistryFailed."""
    pairs = list(sample)
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    key_texts = _chosen(json_texts, keys, f"{topic}-key")
    fields = json_fields(values)
    if fields:
        return TopicColumns(fields, key_texts)
    value_texts = _chosen(json_texts, values, f"{topic}-value")
    decoded = list(_decoded(value_texts, values))
    for text in decoded:
        fields |= sql_types(text.fields)
    return TopicColumns(fields or json_fields(text.text.encode() for text in decoded), key_texts, value_texts)


def sql_types(fields: FieldTypes) -> dict[str, str]:
    """The types of fields as SQL calls them; JSON for those that have fields or elements of their own."""
    return {name: _sql_type(kind) for name, kind in fields.items()}


def _sql_type(kind: pa.DataType | None) -> str:
    if kind is None or pa.types.is_nested(kind):
        return "JSON"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _SQL_TYPES.get(kind, "VARCHAR")


def _chosen(json_texts: JsonTexts | None, sample: Iterable[bytes | None], subject: str) -> ColumnTexts:
    """Choose by frames, or else by the subject, if a schema decodes any of these; else as they are stored."""
    some = list(sample)
    choices = (ColumnTexts(json_texts), ColumnTexts(json_texts, subject))
    return next((choice for choice in choices if any(_decoded(choice, some))), ColumnTexts())


def _decoded(by: ColumnTexts, sample: Iterable[bytes | None]) -> Iterator[JsonText]:
    for data in sample:
        if data is not None and by.json_texts is not None:
            try:
                yield by.json_texts.text(data, by.subject)
            except Undecodable:
                continue
