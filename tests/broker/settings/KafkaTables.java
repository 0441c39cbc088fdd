import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;

public class KafkaTables {
    static void print(String table, ConfigDef definitions, Map<String, String> modes) {
        for (ConfigDef.ConfigKey key : definitions.configKeys().values())
            System.out.println(String.join("\t", table, key.name, key.type.name(),
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
