"""A Spark session in a process of its own that runs what it is asked for, one JSON object a line.

    {"query": "sum", "source": {"format": "ottla", "options": {…}}, …}     →     {"seconds": 1.2, "cpu": 2.1}

Seconds are by the clock, `cpu` is the time of all processes of the session: Python, Java, Spark's workers;
null if the time of a worker that ended is missing.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from benchmarks.cpu_time import spent, tree_of

CORES = 2
POLL_RECORDS = 10_000
TIMEOUT_S = 60.0
SKIPPED_BATCHES = 5
LOOK_S = 0.002
RECORDS_A_S = 50
KEPT_BATCHES = 10_000

Request = dict[str, Any]


# --- where rows come from


def frame(spark: Any, source: Request) -> Any:
    """The rows of a source."""
    if source["format"] == "confluent":
        return _collected(spark, source)
    reader = spark.read.format(source["format"]).options(**source["options"])
    return reader.load(source["path"]) if "path" in source else reader.load()


def _collected(spark: Any, source: Request) -> Any:
    """What people write who have no connector: a consumer, a list, createDataFrame."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer(
        {"group.id": "benchmark", "enable.auto.commit": False, "log_level": 0, **source["options"]}
    )
    consumer.assign([TopicPartition(source["topic"], number, 0) for number in range(source["partitions"])])
    rows: list[Any] = []
    while len(rows) < source["records"]:
        rows += [
            (one.key(), one.value(), one.topic(), one.partition(), one.offset(), one.timestamp()[1])
            for one in consumer.consume(POLL_RECORDS, TIMEOUT_S)
        ]
    consumer.close()
    schema = "key binary, value binary, topic string, partition int, offset long, timestamp long"
    return spark.createDataFrame(rows, schema)


# --- what is done with them


def count(spark: Any, request: Request) -> object:
    """All rows."""
    return frame(spark, request["source"]).count()


def total(spark: Any, request: Request) -> object:
    """One number of all values."""
    return frame(spark, request["source"]).selectExpr("sum(length(value))").first()[0]


def group(spark: Any, request: Request) -> object:
    """A number for each key."""
    counts = frame(spark, request["source"]).groupBy("key").count()
    return counts.selectExpr("sum(count)").first()[0]


def parquet(spark: Any, request: Request) -> object:
    """Files, through Spark's writer."""
    return frame(spark, request["source"]).write.mode("overwrite").parquet(request["path"])


def land(spark: Any, request: Request) -> object:
    """Files, without it."""
    import ottla.spark

    return ottla.spark.land(spark, request["source"]["options"], request["path"]).rows


def topic(spark: Any, request: Request) -> object:
    """Another topic."""
    writer = frame(spark, request["source"]).select("key", "value").write.mode("append")
    return writer.format(request["sink"]["format"]).options(**request["sink"]["options"]).save()


def triggers(spark: Any, request: Request) -> object:
    """Milliseconds of micro-batches that have almost nothing to do: their median."""
    query = _stream(spark, request).trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [one.durationMs["triggerExecution"] for one in query.recentProgress if one.numInputRows]
    return statistics.median(batches[SKIPPED_BATCHES:])


def latency(spark: Any, request: Request) -> object:
    """Milliseconds from when a record is sent until its micro-batch is done: their median."""
    from ottla import Producer

    query = _stream(spark, request).start()
    times = []
    with Producer(bootstrap_servers=request["bootstrap"], linger_ms=0) as producer:
        for number in range(request["records"]):
            written = producer.send(request["topic"], str(number)).result()
            sent = time.perf_counter()
            while _end(query, request["topic"], written.partition) <= written.offset:
                time.sleep(LOOK_S)
            times.append(1000 * (time.perf_counter() - sent))
    query.stop()
    return statistics.median(times[SKIPPED_BATCHES:])


def committed(spark: Any, request: Request) -> object:
    """Milliseconds from when a record is sent until the batch is done that wrote it: the 99th percentile.

    Records come at a steady rate, the query begins a batch whenever the last one is done.
    """
    from ottla import Producer

    query = _table_stream(spark, request)
    sent: dict[tuple[str, int], float] = {}
    with Producer(bootstrap_servers=request["bootstrap"], linger_ms=0) as producer:
        query.processAllAvailable()  # records of earlier rounds
        begun = time.time()
        for number in range(request["records"]):
            time.sleep(max(0.0, begun + number / RECORDS_A_S - time.time()))
            now = time.time()
            written = producer.send(request["topic"], str(number)).result()
            sent[str(written.partition), written.offset] = now
    query.processAllAvailable()
    latencies = []
    for batch in query.recentProgress:
        done = _when(batch.timestamp) + batch.durationMs["triggerExecution"] / 1000
        for partition, begin, end in _read_by(batch, request["topic"]):
            ours = [(partition, offset) for offset in range(begin, end) if (partition, offset) in sent]
            latencies += [1000 * (done - sent.pop(record)) for record in ours]
    query.stop()
    if sent:
        raise AssertionError(f"{len(sent)} records were in no batch")
    return statistics.quantiles(latencies, n=100)[-1]


def _table_stream(spark: Any, request: Request) -> Any:
    """A query that writes parquet files: by Spark's own sink, or as landing does."""
    source = request["source"]
    if source["format"] == "landing":
        import ottla.spark

        return ottla.spark.land_stream(
            spark, source["options"], f"{request['path']}-table", request["path"], compact_after=0
        )
    rows = spark.readStream.format(source["format"]).options(**source["options"]).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", request["path"])
    return writer.start(f"{request['path']}-table")


def _when(stamp: str) -> float:
    """Seconds since 1970 of a time as Spark writes it."""
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def _read_by(batch: Any, topic: str) -> Iterator[tuple[str, int, int]]:
    """The offsets that a batch has read: partition, the first, and the one after the last."""
    source = batch.sources[0]
    begins, ends = (
        (json.loads(text or "{}") or {}).get(topic, {}) for text in (source.startOffset, source.endOffset)
    )
    for partition, end in ends.items():
        yield partition, int(begins.get(partition, 0)), int(end)


def _end(query: Any, topic: str, partition: int) -> int:
    """Where the last batch that is done ended."""
    progress = query.lastProgress
    ends = json.loads(progress.sources[0].endOffset or "{}") if progress is not None else {}
    return int(ends.get(topic, {}).get(str(partition), 0))


def _stream(spark: Any, request: Request) -> Any:
    source = request["source"]
    rows = spark.readStream.format(source["format"]).options(**source["options"]).load()
    return rows.writeStream.format("noop").option("checkpointLocation", request["path"])


QUERIES: dict[str, Callable[[Any, Request], object]] = {
    "count": count,
    "sum": total,
    "group": group,
    "parquet": parquet,
    "land": land,
    "topic": topic,
    "triggers": triggers,
    "latency": latency,
    "committed": committed,
}


def main(jars: list[str]) -> None:
    """Answer until the input ends."""
    from ottla.spark import session

    settings = {"spark_sql_streaming_numRecentProgressUpdates": str(KEPT_BATCHES)}
    settings |= {"spark_jars": ",".join(jars)} if jars else {}
    spark = session("benchmark", f"local[{CORES}]", spark_driver_memory="2g", **settings)
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        before, start = tree_of(os.getpid()), time.perf_counter()
        value = QUERIES[request["query"]](spark, request)
        seconds = time.perf_counter() - start
        cpu = spent(before, tree_of(os.getpid()))
        print(json.dumps({"seconds": seconds, "cpu": cpu, "value": value}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
