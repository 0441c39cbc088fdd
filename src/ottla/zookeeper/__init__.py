"""Everything about ZooKeeper that the broker's registration and the classic consumer share.

`paths` names every znode; `broker_znodes`, `topic_znodes` and `consumer_znodes` are their contents; `session`
is the interface, `kazoo_session` and `memory_session` implement it; `recipes` are small operations on a
session; `server` runs a real ZooKeeper server from the jars that PySpark ships. Nothing here knows a broker,
a group or an assignment, and importing the package imports neither kazoo nor Java.
"""
