"""The broker beside Apache Kafka and kfake: `python -m benchmarks broker`, or one of its parts by name.

Servers are processes; the load generator is this process, the same for all of them, and they take turns.
`python -m benchmarks.broker` runs the generator alone, to tune a server by.
"""

from benchmarks.broker import abuse as abuse
from benchmarks.broker import catch_up as catch_up
from benchmarks.broker import latency as latency
from benchmarks.broker import many as many
from benchmarks.broker import memory as memory
from benchmarks.broker import reopen as reopen
from benchmarks.broker import request_cost as request_cost
from benchmarks.broker import start as start
from benchmarks.broker import throughput as throughput
