"""The cause of a failed query in one line, from the pages of text that Spark, Py4J and Java print. Pure.

Spark wraps an error several times: the query's end, the call into Python, the job, the task. The cause is the
innermost error with a text for people; the wrappers around it are left out.
"""

from __future__ import annotations

import re

_RAISED = re.compile(
    r"^(?:Caused by: |: )*((?:[A-Za-z_]\w*\.)*[A-Z]\w*): (.+)$|^(\[[A-Z][A-Z0-9_.]+\]) (.+)$"
)
_ERRORS = re.compile(r"(Error|Exception|Lost|Failed|Fenced|Aborted|Warning|Interrupt)$")
_WRAPPERS = re.compile(
    r"Py4J|PythonException$|StreamingQueryException$|SparkException$|ExecutionException$|UserFailure$"
    r"|SparkRuntimeException$|TaskFailed|QueryExecutionException$"
)
_NOTHING = re.compile(
    r"^(\[STREAM_FAILED\]|\[TASK_WRITE_FAILED\]|\[PYTHON_DATA_SOURCE_ERROR\]|\[FOREACH_BATCH_USER_FUNCTION_ERROR\]"
    r"|\[FAILED_EXECUTE_UDF\]|Job aborted|An exception was raised by the Python Proxy|Query \[)"
)
_ENDING = re.compile(r"\s*SQLSTATE: \w{5}\.?|\s*JVM stacktrace:.*|;$")
_RAISED_BY_US = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?) ?SQLSTATE:", re.DOTALL)
_CLASS = re.compile(r"\[[A-Z]{3}")
_PLACE = re.compile(r"SQLSTATE: \w{5}; (line \d+ pos \d+)")
_LONG = re.compile(r"'([^']{100})[^']{100,}'")
"""A value that is quoted at length: its beginning tells enough."""
_LOCATION = re.compile(r"Task failed while writing rows to (\S+?)(?:/_ottla/\S*)?\.?\s")


def cause(text: str) -> str:
    """Return the line that names the cause: for an error in SQL with its position, and where a table could
    not be written.
    """
    line = _cause(text)
    location = _LOCATION.search(text)
    return f"{line} (writing {location[1]})" if location and location[1] not in line else line


def _cause(text: str) -> str:
    ours = _RAISED_BY_US.search(text)
    if ours is not None:
        return " ".join(ours[1].split())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in map(_raised_error, lines) if line]
    return errors[-1] if errors else lines[0] if lines else "Spark gives no reason"


def _raised_error(line: str) -> str:
    """Return the error that the line raises, without its wrapping; "" if it raises none."""
    match = _RAISED.match(line)
    if match is None:
        return ""
    if match[3]:  # an error class of Spark without a text
        return "" if _NOTHING.match(line) else _short(line)
    name, words = match[1], match[2]
    if not (_ERRORS.search(name) or name.startswith("ottla.")) or _NOTHING.match(words):
        return ""
    if _WRAPPERS.search(name):
        return _raised_error(words) or (_short(words) if _CLASS.match(words) else "")
    inner = _raised_error(words)
    plain = name.rpartition(".")[2]
    if inner:
        return inner
    own = plain in {"AnalysisException", "ParseException"} or _CLASS.match(words)
    return _short(words) if own else f"{plain}: {_short(words)}"


def _short(words: str) -> str:
    words = _LONG.sub(r"'\1…'", words)
    position = _PLACE.search(words)
    at = f" ({position[1]})" if position else ""
    return _ENDING.sub("", words.split("; line ")[0] if position else words).strip() + at
