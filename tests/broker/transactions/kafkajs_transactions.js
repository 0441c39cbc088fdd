// Commits the numbers below COUNT to "out", with a position of the topic "in" each, and aborts others between
// them: kafkajs_transactions.js BOOTSTRAP COUNT. NODE_PATH names the directory that holds kafkajs.

"use strict";

const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, count] = process.argv.slice(2);
const retry = { initialRetryTime: 50, maxRetryTime: 1000, retries: 30 };
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry });
const settings = { transactionalId: "js", maxInFlightRequests: 1, idempotent: true };

async function begun(producer, value) {
  const transaction = await producer.transaction();
  await transaction.send({ topic: "out", messages: [{ value, partition: 0 }] });
  return transaction;
}

async function main() {
  const first = kafka.producer(settings);
  await first.connect();
  for (let number = 0; number < Number(count); number++) {
    const kept = await begun(first, `${number}`);
    const position = { partition: 0, offset: `${number + 1}` };
    const topics = [{ topic: "in", partitions: [position] }];
    await kept.sendOffsets({ consumerGroupId: "other", topics });
    await kept.commit();
    await (await begun(first, "aborted")).abort();
  }
  const lost = await begun(first, "lost");
  const second = kafka.producer({ ...settings, retry });
  await second.connect();
  const other = await begun(second, "aborted");
  try {
    await lost.commit();
    console.log("not fenced");
  } catch (error) {
    console.log("fenced");
  }
  await other.abort();
  await Promise.all([first.disconnect(), second.disconnect()]);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
