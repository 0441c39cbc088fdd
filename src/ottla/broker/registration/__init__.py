"""The brokers of this process in ZooKeeper, as Kafka 0.9 to 3.9 write themselves there.

    registration     the thread, its start and stop            offsets   OffsetCommit and OffsetFetch 0
    registrar        the chores, and their order
    broker_nodes     /brokers/ids, /controller, /cluster/id    topic_nodes   /brokers/topics, /config/topics
    admin_nodes      /admin, /config/changes                   reads, flags  watches
    view, orders     what the loop reports, and what it is ordered to do

One process is one cluster: brokers of other processes, Kafka's or ours, need another ZooKeeper or chroot.
Only `registration` imports kazoo.
"""
