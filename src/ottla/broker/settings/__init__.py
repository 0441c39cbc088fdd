"""The settings of topics and brokers: tables with Kafka's names, types, ranges and defaults.

`broker_config` and `topic_settings` turn texts into values; `described_configs` and `config_changes` serve
admin clients.
"""
