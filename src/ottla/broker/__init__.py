"""A Kafka broker in one Python process. Rooms, from top to bottom; each imports only those below it:

embedded        EmbeddedBroker: the broker in a thread of its own
service         all brokers of a process, with housekeeping, metrics and ZooKeeper
metrics         /metrics for Prometheus          registration   the brokers in ZooKeeper
node            one broker: an id, a port, connections, groups
cluster         what the brokers share           handlers       one module per API key
serving         connections, the express lane, long polls, faults; ServedBroker: what handlers see
groups          the group coordinator, and the service that carries out its decisions
storage         topics, partitions, leaders, changes of them, and the turn that writes
producer_state  idempotent producers
settings        tables of settings, and their values
"""
