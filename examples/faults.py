"""Let brokers fail on demand, and see that a client copes: nothing is lost, nothing is stored twice.

Prints:

    100 records sent through errors, a lost answer and a dead broker
    100 stored, 100 different
"""

from __future__ import annotations

from ottla import EmbeddedBroker, Producer, replay

RECORDS = 100


def main() -> None:
    with EmbeddedBroker(brokers=3) as cluster:
        cluster.create_topic("orders", 3, replication_factor=3)
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send("orders", "0").result(timeout=30)
            cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)  # an error, twice
            cluster.drop("Produce", handled=True)  # stored, but the answer is lost
            for number in range(1, RECORDS):
                producer.send("orders", str(number))
                if number == RECORDS // 2:
                    producer.flush()
                    cluster.stop_broker(1)  # its partitions get other leaders
            producer.flush()
        print(RECORDS, "records sent through errors, a lost answer and a dead broker")

        with replay("orders", bootstrap_servers=cluster.bootstrap) as everything:
            values = [message.value for message in everything.messages()]
        print(len(values), "stored,", len(set(values)), "different")


if __name__ == "__main__":
    main()
