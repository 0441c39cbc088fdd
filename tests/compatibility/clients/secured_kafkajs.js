// kafkajs on secured listeners: secured_kafkajs.js LOGINS.json. For each login: produce a record, and read it in
// a group. A login that is wrong must not get that far. NODE_PATH names the directory that holds kafkajs.

"use strict";

const { readFileSync } = require("node:fs");
const { Kafka, logLevel } = require("kafkajs");

const say = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");

function settings(login) {
  const made = { brokers: login.bootstrap.split(","), logLevel: logLevel.NOTHING, retry: { retries: login.is_wrong ? 0 : 5 } };
  if (login.protocol.includes("SSL")) {
    made.ssl = { ca: [readFileSync(login.authority, "utf8")] };
    if (login.protocol === "SSL") {
      const text = readFileSync(login.certificate, "utf8");
      made.ssl.key = text.slice(0, text.indexOf("-----BEGIN CERTIFICATE"));
      made.ssl.cert = text.slice(text.indexOf("-----BEGIN CERTIFICATE"));
    }
  }
  if (login.mechanism === "OAUTHBEARER") {
    made.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: login.token }) };
  } else if (login.protocol.includes("SASL")) {
    made.sasl = { mechanism: login.mechanism.toLowerCase(), username: login.user, password: login.password };
  }
  return made;
}

async function roundTrip(login) {
  const kafka = new Kafka(settings(login));
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: login.topic, acks: -1, messages: [{ value: login.value }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: login.group, maxWaitTimeInMs: 50 });
  await consumer.connect();
  await consumer.subscribe({ topics: [login.topic], fromBeginning: true });
  try {
    return await new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error("no record within 30 s")), 30_000).unref();
      consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
}

async function main() {
  for (const login of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
    let [isIn, detail] = [false, ""];
    try {
      detail = await roundTrip(login);
      isIn = detail === login.value;
    } catch (error) {
      detail = `${error}`;
    }
    say({ step: login.name, outcome: isIn !== login.is_wrong ? "passed" : "failed", detail });
  }
  say({ done: true });
}

main();
