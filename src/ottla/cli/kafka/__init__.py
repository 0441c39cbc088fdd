"""Kafka's own tools, with their flags and their text: one module for each tool.

`flags` parses a command line as Kafka's tools do, `tool` runs a tool and reports wrong arguments, `settings`
turns flags and files into client properties. Old flags (--zookeeper, --broker-list) print what Kafka 0.9
prints, new ones (--bootstrap-server) what Kafka 4 prints.
"""
