"""Partitions read from their leaders into Arrow chunks, in bounded queues.

`engine.FetchEngine` reads partitions; each has a `feed.PartitionFeed` to poll, or several share an
`inbox.Inbox`. `partition_info` has their positions, `fetch_config` has the settings.

The pure core is `budget`, `chunk_queue`, `collector`, `cursor`, `feed_interface`, `fetch_errors`,
`partition_table` and `request_plan`. Importing one of these loads no thread and no socket, so this package
imports nothing.
"""
