"""A failure is told by its cause, in one line, however deep Spark has packed it."""
# ruff: noqa: E501 - texts as Spark tells them

from __future__ import annotations

import pytest

from ottla.spark.causes import cause

PROXY = """[STREAM_FAILED] Query [id = 4a17, runId = 0d6a] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. \
Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/lib/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{raised}
"""
COLUMN = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `valeu` cannot be"
    " resolved. Did you mean one of the following? [`value`, `key`]."
)
TASK = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in \
stage 3.0 (TID 3) (localhost executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/home/me/shop.py", line 3, in sizes
    raise ValueError("size must be positive, not -3")
ValueError: size must be positive, not -3

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            PROXY.format(
                raised="pyspark.errors.exceptions.captured.AnalysisException: "
                f"{COLUMN} SQLSTATE: 42703; line 1 pos 7;\n'Project ['valeu]\n+- SubqueryAlias records"
            ),
            f"{COLUMN} (line 1 pos 7)",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==",
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'. (line 1, pos 0)",
        ),
        (TASK, "ValueError: size must be positive, not -3"),
        (
            PROXY.format(raised="OSError: [Errno 28] No space left on device"),
            "OSError: [Errno 28] No space left on device",
        ),
        (
            PROXY.format(raised="py4j.protocol.Py4JJavaError: An error occurred while calling o540.parquet.")
            + ": org.apache.spark.SparkException: Job aborted.\n\tat org.apache.spark.X(Y.scala:1)\n"
            "Caused by: java.nio.file.AccessDeniedException: /tables/orders",
            "AccessDeniedException: /tables/orders",
        ),
        (
            "An error occurred while calling o54.parquet.\n: org.apache.hadoop.fs.UnsupportedFileSystemException:"
            ' No FileSystem for scheme "s3a"\n\tat org.apache.hadoop.fs.FileSystem.x(FileSystem.java:3375)',
            'UnsupportedFileSystemException: No FileSystem for scheme "s3a"',
        ),
        (
            "Job aborted due to stage failure: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION]"
            " orders-0 at offset 7: not JSON. SQLSTATE: P0001",
            "orders-0 at offset 7: not JSON.",
        ),
        (
            "ottla.model.errors.ConfigError: column key is int: cast it",
            "ConfigError: column key is int: cast it",
        ),
        (
            "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task"
            " failed while writing rows to file:/tables/orders/_ottla/staging/range-f14c. SQLSTATE: 58030\n"
            "\tat org.apache.spark.X(Y.scala:1)\nCaused by: java.io.IOException: No space left on device\n",
            "IOException: No space left on device (writing file:/tables/orders)",
        ),
        (
            f'[CAST_INVALID_INPUT] The value \'{"x" * 4000}\' of the type "STRING" cannot be cast to "INT".',
            f'[CAST_INVALID_INPUT] The value \'{"x" * 100}…\' of the type "STRING" cannot be cast to "INT".',
        ),
        ("something else\nand more", "something else"),
        ("", "Spark gives no reason"),
    ],
)
def test_the_cause_is_one_line(text: str, told: str) -> None:
    assert cause(text) == told
