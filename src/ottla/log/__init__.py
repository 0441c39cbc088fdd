"""The on-disk log: Kafka's files, byte for byte, behind one owner per partition.

`log_directory` holds all partitions of a data directory, `partition_log` one of them; every other file has
one idea. Nothing here knows sockets, clocks, threads or the wire protocol: time is an argument.

The modules on the way of a produce or a fetch import no kernels, so that a broker starts before Numba is
loaded; whatever decodes records (recovery after a crash, compaction, conversion) does.
"""
