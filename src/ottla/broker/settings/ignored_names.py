"""Kafka's server properties, 0.9 to 4.x, that have no meaning in this broker.

They are accepted, so that a server.properties of Kafka can be used, and listed in `BrokerConfig.ignored`.
Most belong to features that this broker does not have: replication, controllers, Kerberos, remote
storage, thread pools. Whole families are accepted by their prefix. A property whose neglect would
weaken a promise (a policy, closed znodes) is refused instead.
"""

from __future__ import annotations

from ottla.model.errors import ConfigError

FAMILIES = (
    "add.partitions.to.txn.",
    "alter.log.dirs.",
    "controlled.shutdown.",
    "controller.",
    "delegation.token.",
    "group.consumer.",
    "group.coordinator.",
    "group.share.",
    "group.streams.",
    "inter.broker.",
    "internal.",
    "kafka.metrics.",
    "leader.imbalance.",
    "listener.name.",
    "metadata.",
    "metrics.",
    "password.encoder.",
    "quota.",
    "remote.",
    "replica.",
    "replication.quota.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.",
    "share.",
    "socket.connection.setup.",
    "ssl.",
    "transaction.",
    "unstable.",
    "zookeeper.metadata.migration.",
    "zookeeper.ssl.",
)

NAMES = frozenset(
    {
        "auto.include.jmx.reporter",
        "auto.leader.rebalance.enable",
        "background.threads",
        "broker.heartbeat.interval.ms",
        "broker.id.generation.enable",
        "broker.session.timeout.ms",
        "client.quota.callback.class",
        "delete.records.purgatory.purge.interval.requests",
        "early.start.listeners",
        "eligible.leader.replicas.enable",
        "fetch.purgatory.purge.interval.requests",
        "initial.broker.registration.timeout.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "log.dir.failure.timeout.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.initial.task.delay.ms",
        "max.connection.creation.rate",
        "max.connections.per.ip.overrides",
        "max.request.partition.size.limit",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
        "offsets.commit.required.acks",
        "offsets.commit.timeout.ms",
        "offsets.load.buffer.size",
        "offsets.topic.compression.codec",
        "offsets.topic.replication.factor",
        "principal.builder.class",
        "process.roles",
        "producer.id.expiration.check.interval.ms",
        "producer.purgatory.purge.interval.requests",
        "queued.max.requests",
        "request.timeout.ms",
        "reserved.broker.max.id",
        "security.inter.broker.protocol",
        "security.providers",
        "server.max.startup.time.ms",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "telemetry.max.bytes",
        "unclean.leader.election.interval.ms",
        "zookeeper.clientCnxnSocket",
        "zookeeper.max.in.flight.requests",
        "zookeeper.sync.time.ms",
    }
)

REFUSED = {
    "alter.config.policy.class.name": "this broker runs no Java classes and would not keep to the policy",
    "create.topic.policy.class.name": "this broker runs no Java classes and would not keep to the policy",
    "config.providers": "this broker looks up no values elsewhere; write the values themselves",
    "remote.log.storage.system.enable": "this broker has no remote storage; leave it out or set it to false",
    "transaction.two.phase.commit.enable": "this broker does not keep transactions open for a second phase; "
    "leave it out or set it to false",
    "zookeeper.set.acl": "this broker writes znodes that all may change; leave it out or set it to false",
    "zookeeper.ssl.client.enable": "this broker does not encrypt its connections to ZooKeeper; "
    "leave it out or set it to false",
}
"""Name → the end of the error text. An empty value and false ask for nothing and are ignored."""

_SECRETS = (
    ".password",
    ".secret",
    ".key",
    ".passphrase",
    ".certificate.chain",
    ".certificates",
    "jaas.config",
)
_FOREIGN = ("rlmm.config.", "rsm.config.")


def is_ignored(name: str) -> bool:
    """Whether a property is Kafka's but not ours."""
    return name in NAMES or name in REFUSED or name.startswith((*FAMILIES, "config.providers."))


def is_secret(name: str) -> bool:
    """Whether the value of an ignored property must not be shown; plugins' settings may be anything."""
    return name.endswith(_SECRETS) or name.startswith(_FOREIGN)


def check_refused(name: str, text: str) -> None:
    """Raise ConfigError for a property that must not be ignored."""
    if name in REFUSED and text.strip().lower() not in ("", "false"):
        raise ConfigError(f"{name}={text.strip()}: {REFUSED[name]}")
