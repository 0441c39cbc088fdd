"""The settings of topics and brokers: tables with Kafka's names, and the syntax of what people write.

Knows names, types, ranges and defaults. Must not know what a value does: `ottla.broker.config` and
`ottla.broker.topic_settings` make values of texts, `described_configs` and `config_changes` serve admin
clients.
"""
