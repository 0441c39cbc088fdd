"""The brokers of this process in ZooKeeper, as Kafka 0.9 to 3.9 write themselves there.

    registration     the thread, its start and stop            offsets   OffsetCommit and OffsetFetch 0
    registrar        what is to do, and in which order
    broker_nodes     /brokers/ids, /controller, /cluster/id    topic_nodes   /brokers/topics, /config/topics
    admin_nodes      /admin, /config/changes                   reads, flags  watches
    view, orders     what the loop is asked for, and told to do

One process is one cluster: brokers of other processes, Kafka's or ours, have a ZooKeeper or a chroot of their
own. Only `registration` imports kazoo.
"""
