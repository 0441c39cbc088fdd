import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** Counts the records of "in" by their key, and writes every new count to "out", exactly once. */
public class StreamsCounts {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[1]);
        settings.put("application.id", "counts");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "50");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", arguments[2]);
        settings.put("consumer.heartbeat.interval.ms", "300");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("in")
            .groupByKey()
            .count(Materialized.as(Stores.inMemoryKeyValueStore("totals")))
            .toStream()
            .mapValues(String::valueOf)
            .to("out");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        System.in.read(); // until the test closes it
        streams.close(Duration.ofSeconds(20));
    }
}
