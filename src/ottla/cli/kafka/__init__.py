"""Kafka's own tools, with their flags and their text: one module a tool.

`flags` reads a command line as Kafka's tools do, `tool` runs one and tells what is wrong with its arguments,
`settings` makes properties of flags and files. Old flags (--zookeeper, --broker-list) print what Kafka 0.9
prints, new ones (--bootstrap-server) what Kafka 4 prints.
"""
