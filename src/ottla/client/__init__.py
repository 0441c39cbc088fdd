"""What every consumer, producer, admin and tool shares to talk to brokers.

`client_config`: what users set. `connection`: one connection, owned by one thread. `metadata`: what all
threads know about the cluster. `network_errors`: why brokers do not answer, for all that wait. `pool`: the
connections of one thread. `retry`: what to do about an error
(pure); `attempts`: the loop that tries again. `zookeeper_metadata`: the cluster as ZooKeeper has it. Nothing
here knows records, groups or positions.
"""
