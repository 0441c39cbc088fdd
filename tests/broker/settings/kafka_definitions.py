"""What Kafka 3.9.1 itself says of its settings: a few lines of Java print its tables, run from source."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.log.kafka_tools import RUN_SECONDS, kafka_3_9

PROGRAM = """
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;

public class Tables {
    static void print(String table, ConfigDef definitions, Map<String, String> modes) {
        for (ConfigDef.ConfigKey key : definitions.configKeys().values())
            System.out.println(String.join("\\t", table, key.name, key.type.name(),
                String.valueOf(ConfigDef.convertToString(key.defaultValue, key.type)),
                String.valueOf(key.validator), modes.getOrDefault(key.name, "read-only")));
    }

    public static void main(String[] arguments) {
        Map<String, String> synonyms = new HashMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, all) -> {
            StringJoiner names = new StringJoiner(",");
            all.forEach(one -> names.add(one.name()));
            synonyms.put(name, names.toString());
        });
        print("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy(), synonyms);
        print("broker", kafka.server.KafkaConfig$.MODULE$.configDef(),
            kafka.server.DynamicBrokerConfig$.MODULE$.dynamicConfigUpdateModes());
    }
}
"""


class Definition(NamedTuple):
    """One setting of Kafka's. `more` are a topic setting's synonyms, or a broker setting's update mode."""

    type: str
    default: str | None
    valid: str
    more: str


@cache
def definitions(table: str) -> dict[str, Definition]:
    """The settings of "topic" or "broker" by name; skips the test if Kafka cannot be had."""
    return {
        name: Definition(kind, None if default == "null" else default, valid, more)
        for of_table, name, kind, default, valid, more in _rows()
        if of_table == table
    }


@cache
def _rows() -> list[list[str]]:
    jars = kafka_3_9()
    with TemporaryDirectory() as work:
        source = Path(work) / "Tables.java"
        source.write_text(PROGRAM)
        run = subprocess.run(
            ["java", "-cp", f"{jars}/*", source.name],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    return [line.split("\t") for line in run.stdout.splitlines()]
