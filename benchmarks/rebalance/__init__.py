"""How groups rebalance, beside Kafka's own: `python -m benchmarks rebalance`, or one of its parts by name.

Members are in processes that take commands and tell of every record that they deliver; a writer writes to all
partitions all the time. `python -m benchmarks.rebalance` prints the same as the tables of docs/rebalance.md.
"""

from benchmarks.rebalance import cases as cases
