"""Read a topic as a Spark DataFrame, without a jar. Needs Java and `pip install 'ottla[spark]'`.

Prints:

    1000 orders by 10 customers, 499500 cents
"""

from __future__ import annotations

import ottla.spark
from ottla import EmbeddedBroker, Producer


def main() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for cents in range(1000):
                producer.send("orders", str(cents), key=f"customer {cents % 10}")

        spark = ottla.spark.session(master="local[2]")
        orders = (
            spark.read.format("ottla")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", "orders")
            .load()
        )
        totals = orders.selectExpr(
            "count(*)", "count(DISTINCT key)", "sum(CAST(CAST(value AS STRING) AS INT))"
        )
        count, customers, cents = totals.collect()[0]
        print(f"{count} orders by {customers} customers, {cents} cents")
        spark.stop()


if __name__ == "__main__":
    main()
