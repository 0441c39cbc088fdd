"""What every consumer, producer, admin and tool shares to talk to brokers.

`config` is what users set; `connection` one connection, owned by one thread; `metadata` what all threads know
of the cluster; `pool` a thread's connections by broker; `retry` what to do about an error, and when;
`zookeeper_metadata` the cluster as ZooKeeper tells it. Nothing here knows records, groups or positions.
"""
