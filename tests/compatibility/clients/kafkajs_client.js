// kafkajs: every step of the matrix that it has calls for. Its other codecs are packages of their own.
// NODE_PATH names the directory that holds kafkajs.

"use strict";

const readline = require("node:readline");
const { isDeepStrictEqual } = require("node:util");
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");
const { transactionSteps } = require("./kafkajs_transactions.js");

const [bootstrap, prefix] = process.argv.slice(2);
const [topic, group] = [`${prefix}-topic`, `${prefix}-group`];
const partitions = 3;
const firstTimeMs = Date.now() - 60_000;
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 30 },
});
const admin = kafka.admin();

class Skip extends Error {}

const say = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function same(got, wanted, what) {
  if (!isDeepStrictEqual(got, wanted)) {
    const [left, right] = [got, wanted].map((each) => JSON.stringify(each)?.slice(0, 300));
    throw new Error(`${what}: got ${left}, wanted ${right}`);
  }
}

async function until(condition, what) {
  for (const end = Date.now() + 30_000; !(await condition()); await pause(20)) {
    if (Date.now() > end) throw new Error(`${what}: not within 30 s`);
  }
}

async function restart() {
  say({ ask: "restart" });
  if ((await answers.next()).value !== "restarted") throw new Skip("this broker cannot be restarted by the test");
}

function sample(count) {
  return Array.from({ length: count }, (_, n) => ({
    partition: n % partitions,
    timestamp: String(firstTimeMs + 1000 * n),
    key: n % 5 === 4 ? null : `key ${n}`,
    value: n % 10 === 3 ? "" : n % 10 === 6 ? null : `value ${n} `.repeat(1 + (n % 7) * 40),
    headers: [{}, { kind: "sample" }, { kind: "sample", number: String(n) }][n % 3],
  }));
}

const inOrder = (rows) => [...rows].sort((a, b) => a.partition - b.partition);
const text = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString());

async function sendWith(producer, name, rows, options = {}) {
  await producer.send({ topic: name, messages: rows, acks: -1, ...options });
}

async function send(name, rows, options = {}, settings = {}) {
  const producer = kafka.producer(settings);
  await producer.connect();
  try {
    await sendWith(producer, name, rows, options);
  } finally {
    await producer.disconnect();
  }
}

// A member of a group, with what it has read and what it owns.
class Member {
  constructor(groupId) {
    this.rows = [];
    this.ends = {};
    this.own = [];
    this.consumer = kafka.consumer({
      groupId,
      sessionTimeout: 6000,
      heartbeatInterval: 500,
      maxWaitTimeInMs: 100,
      metadataMaxAge: 1000,
      retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 30 },
    });
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.own = Object.values(payload.memberAssignment).flat().sort();
    });
  }

  async join(name) {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [name], fromBeginning: true });
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const headers = Object.entries(message.headers).map(([key, value]) => [key, text(value)]);
        this.ends[partition] = String(BigInt(message.offset) + 1n);
        this.rows.push({
          partition,
          timestamp: message.timestamp,
          key: text(message.key),
          value: text(message.value),
          headers: Object.fromEntries(headers),
        });
      },
    });
    return this;
  }

  async read(count) {
    await until(() => this.rows.length >= count, `${count} records`);
    return inOrder(this.rows.splice(0));
  }

  async commit(name) {
    await this.consumer.commitOffsets(
      Object.entries(this.ends).map(([partition, offset]) => ({ topic: name, partition: Number(partition), offset })),
    );
  }

  leave() {
    return this.consumer.disconnect();
  }
}

async function withMember(groupId, name, use) {
  const member = new Member(groupId);
  try {
    await use(await member.join(name));
  } finally {
    await member.leave();
  }
}

const create = (name, numPartitions = partitions, configEntries = []) =>
  admin.createTopics({ topics: [{ topic: name, numPartitions, replicationFactor: 1, configEntries }] });

async function offsets(groupId, name) {
  const [found] = await admin.fetchOffsets({ groupId, topics: [name] });
  return found.partitions.sort((a, b) => a.partition - b.partition).map((each) => each.offset);
}

async function createTopic() {
  same(await create(topic), true, "created");
  await until(async () => (await admin.listTopics()).includes(topic), "the topic in the list");
  same(await create(topic), false, "created once more");
}

async function autoCreation() {
  await send(`${prefix}-auto`, [{ partition: 0, key: "k", value: "v" }]);
  const { topics } = await admin.fetchTopicMetadata({ topics: [`${prefix}-auto`] });
  same(topics[0].partitions.length, 1, "partitions");
}

async function written(name, options, settings) {
  await create(name);
  await send(name, sample(30), options, settings);
  await withMember(name, name, async (reader) => {
    same(await reader.read(30), inOrder(sample(30)), "records");
  });
}

const codec = (name, compression) => written(`${prefix}-${name}`, { compression });
const idempotent = () => written(`${prefix}-idempotent`, {}, { idempotent: true, maxInFlightRequests: 1 });

async function tooLarge() {
  await create(`${prefix}-large`, 1, [{ name: "max.message.bytes", value: "2000" }]);
  try {
    await send(`${prefix}-large`, [{ partition: 0, value: "x".repeat(5000) }]);
  } catch (error) {
    return same((error.cause ?? error).type, "MESSAGE_TOO_LARGE", "error");
  }
  throw new Error("a record above max.message.bytes was accepted");
}

async function offsetsForTimes() {
  const found = await admin.fetchTopicOffsetsByTimestamp(`${prefix}-none`, firstTimeMs + 15_000);
  same(found.map((each) => each.offset), ["5", "5", "5"], "offsets");
}

async function groupCommit() {
  await send(topic, sample(30));
  await withMember(group, topic, async (member) => {
    same(await member.read(30), inOrder(sample(30)), "records");
    await member.commit(topic);
  });
  same(await offsets(group, topic), ["10", "10", "10"], "committed");
  await withMember(group, topic, async (again) => {
    await send(topic, sample(3));
    same(await again.read(3), sample(3), "records behind the commit");
    await again.commit(topic);
  });
}

async function rebalance() {
  const name = `${prefix}-rebalance`;
  await create(name, 4);
  await withMember(name, name, async (first) => {
    await until(() => first.own.length === 4, "all partitions with one member");
    await withMember(name, name, async (second) => {
      await until(
        () => first.own.length === 2 && isDeepStrictEqual([...first.own, ...second.own].sort(), [0, 1, 2, 3]),
        "two partitions each",
      );
    });
    await until(() => first.own.length === 4, "all partitions with the one that stays");
  });
}

async function goOnAfterRestart() {
  const name = `${prefix}-restart`;
  await create(name);
  // What it sends again after a broken connection must not count twice.
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  try {
    await withMember(name, name, async (member) => {
      await sendWith(producer, name, sample(30));
      await member.read(30);
      await member.commit(name);
      await restart();
      await sendWith(producer, name, sample(6));
      // It may read a record once more when it has to join again before its commit.
      const seen = new Map();
      await until(() => {
        for (const row of member.rows.splice(0)) seen.set(row.timestamp, row);
        return seen.size >= 6;
      }, "the records behind the restart");
      same(inOrder(seen.values()), inOrder(sample(6)), "records behind the restart");
      await member.commit(name);
      same(await offsets(name, name), ["12", "12", "12"], "committed");
    });
  } finally {
    await producer.disconnect();
  }
}

async function describeCluster() {
  const found = await admin.describeCluster();
  same(found.brokers.map((each) => `${each.host}:${each.port}`), [bootstrap], "brokers");
  same(found.controller, found.brokers[0].nodeId, "controller");
}

async function describeTopic() {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  same(topics[0].partitions.map((each) => each.isr.length), [1, 1, 1], "replicas in sync");
}

async function config(type, name, configName) {
  const found = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name, configNames: [configName] }] });
  return found.resources[0].configEntries[0].configValue;
}

async function describeConfigs() {
  same(await config(ConfigResourceTypes.TOPIC, topic, "cleanup.policy"), "delete", "cleanup.policy");
  const { controller } = await admin.describeCluster();
  same(await config(ConfigResourceTypes.BROKER, String(controller), "num.partitions"), "1", "num.partitions");
}

async function alterConfig() {
  const configEntries = [{ name: "retention.ms", value: "12345678" }];
  await admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
  });
  await until(
    async () => (await config(ConfigResourceTypes.TOPIC, topic, "retention.ms")) === "12345678",
    "the new value",
  );
}

async function createPartitions() {
  await create(`${prefix}-more`, 1);
  await admin.createPartitions({ topicPartitions: [{ topic: `${prefix}-more`, count: 4 }] });
  await until(async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [`${prefix}-more`] });
    return topics[0].partitions.length === 4;
  }, "4 partitions");
}

async function listOffsets() {
  const found = await admin.fetchTopicOffsets(`${prefix}-none`);
  same(found.map((each) => [each.low, each.high]), Array(3).fill(["0", "10"]), "offsets");
}

async function listed() {
  return (await admin.listGroups()).groups.some((each) => each.groupId === group);
}

async function describeGroup() {
  const name = `${prefix}-described`;
  await withMember(name, topic, async (member) => {
    await until(() => member.own.length === 3, "an assignment");
    const { groups } = await admin.describeGroups([name]);
    same([groups[0].state, groups[0].members.length], ["Stable", 1], "state and members");
  });
}

async function deleteGroup() {
  await admin.deleteGroups([group]);
  same(await listed(), false, "still listed");
}

async function deleteTopic() {
  await admin.deleteTopics({ topics: [topic] });
  await until(async () => !(await admin.listTopics()).includes(topic), "the topic gone from the list");
}

const steps = {
  "create a topic": createTopic,
  "create a topic by producing": autoCreation,
  "produce and consume, none": () => codec("none", CompressionTypes.None),
  "produce and consume, gzip": () => codec("gzip", CompressionTypes.GZIP),
  "produce idempotently": idempotent,
  "too large a record is refused": tooLarge,
  "offsets for times": offsetsForTimes,
  "consume in a group and commit": groupCommit,
  "rebalance: one joins, one leaves": rebalance,
  "go on after a restart of the broker": goOnAfterRestart,
  ...transactionSteps({ kafka, admin, prefix, same, restart }),
  "describe the cluster": describeCluster,
  "describe a topic": describeTopic,
  "describe configs": describeConfigs,
  "alter a config": alterConfig,
  "create partitions": createPartitions,
  "list offsets": listOffsets,
  // No "delete records": its call asks for a broker that it cannot find, of Apache Kafka too.
  "list groups": async () => same(await listed(), true, "listed"),
  "describe a group": describeGroup,
  "list a group's offsets": async () => same(await offsets(group, topic), ["11", "11", "11"], "offsets"),
  "alter a group's offsets": async () => {
    await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 1, offset: "7" }] });
    same(await offsets(group, topic), ["11", "7", "11"], "offsets");
  },
  "delete a group": deleteGroup,
  "delete a topic": deleteTopic,
};

async function main() {
  say({ client: "kafkajs", version: require("kafkajs/package.json").version });
  await admin.connect();
  for (const [step, action] of Object.entries(steps)) {
    const late = pause(45_000).then(() => {
      throw new Error("the step did not end within 45 s");
    });
    late.catch(() => {});
    try {
      await Promise.race([action(), late]);
      say({ step, outcome: "passed" });
    } catch (error) {
      const outcome = error instanceof Skip ? "skipped" : "failed";
      say({ step, outcome, detail: `${error.name}: ${error.message}`.slice(0, 600) });
    }
  }
  say({ done: true });
  process.exit(0);
}

main();
