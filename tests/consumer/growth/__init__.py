"""What groups of every kind cost as they grow: members and coordinators as they ship, on a simulated network.

`timeline` has virtual time and counts what travels; `coordinated`, `share` and `classic` are groups at a
coordinator and in ZooKeeper; `study` lets a group of a size start, grow, shrink and rest, and returns what
each of that took. A seed always gives the same figures. `python -m benchmarks groups-growth` runs it.
"""
