// kafkajs: transactions. Topics have one partition here.

"use strict";

exports.transactionSteps = ({ kafka, admin, prefix, same, restart }) => {
  async function create(topic) {
    await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }], waitForLeaders: true });
  }

  async function open(transactionalId, transactionTimeout = 60_000) {
    const producer = kafka.producer({ transactionalId, transactionTimeout, maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    return producer;
  }

  const put = (transaction, topic, value) => transaction.send({ topic, messages: [{ value, partition: 0 }] });

  async function begun(name, value, timeoutMs) {
    const producer = await open(`${prefix}-${name}`, timeoutMs);
    const transaction = await producer.transaction();
    await put(transaction, `${prefix}-${name}`, value);
    return { producer, transaction };
  }

  async function refused({ producer, transaction }) {
    let wasRefused = false;
    try {
      await transaction.commit();
    } catch {
      wasRefused = true;
    }
    same(wasRefused, true, "the commit was refused");
    producer.disconnect().catch(() => {});
  }

  async function holds(topic, wanted) {
    const consumer = kafka.consumer({ groupId: `${topic}-reader`, maxWaitTimeInMs: 100, readUncommitted: false });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const values = [];
    await new Promise((resolve) => {
      const eachMessage = async ({ message }) => {
        if (values.push(message.value.toString()) === wanted.length) resolve();
      };
      consumer.run({ eachMessage });
    });
    await consumer.disconnect();
    same(values, wanted, "committed values");
  }

  async function commitAndAbort() {
    const topic = `${prefix}-ended`;
    await create(topic);
    const producer = await open(topic);
    for (let number = 0; number < 5; number++) {
      const transaction = await producer.transaction();
      await put(transaction, topic, `${number}`);
      const topics = [{ topic, partitions: [{ partition: 0, offset: `${number + 1}` }] }];
      await transaction.sendOffsets({ consumerGroupId: topic, topics });
      await (number % 2 ? transaction.abort() : transaction.commit());
    }
    await producer.disconnect();
    await holds(topic, ["0", "2", "4"]);
    const [found] = await admin.fetchOffsets({ groupId: topic, topics: [topic] });
    same(found.partitions[0].offset, "5", "position");
  }

  async function fenced() {
    const topic = `${prefix}-fenced`;
    await create(topic);
    const first = await begun("fenced", "lost");
    const second = await begun("fenced", "kept");
    await refused(first);
    await second.transaction.commit();
    await second.producer.disconnect();
    await holds(topic, ["kept"]);
  }

  async function timedOut() {
    const topic = `${prefix}-late`;
    await create(topic);
    const late = await begun("late", "lost", 1_000);
    const other = kafka.producer();
    await other.connect();
    await put(other, topic, "behind");
    await other.disconnect();
    await holds(topic, ["behind"]);
    await refused(late);
  }

  async function restarted() {
    const topic = `${prefix}-restarted`;
    await create(topic);
    const { producer, transaction } = await begun("restarted", "before");
    await restart();
    try {
      await put(transaction, topic, "after");
      await transaction.commit();
      await producer.disconnect();
    } catch {
      // It gives up while Kafka's coordinator loads: the next producer of the id begins anew.
      const next = await begun("restarted", "before");
      await put(next.transaction, topic, "after");
      await next.transaction.commit();
      await next.producer.disconnect();
    }
    await holds(topic, ["before", "after"]);
  }

  return {
    "transactions: commit and abort, with positions": commitAndAbort,
    "transactions: a newer producer fences the older": fenced,
    "transactions: aborted after their timeout": timedOut,
    "transactions: committed after a restart of the broker": restarted,
  };
};
