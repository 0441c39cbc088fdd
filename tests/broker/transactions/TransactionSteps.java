import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commits, aborts and is fenced with Kafka's own clients; prints what a reader of committed data gets. */
public class TransactionSteps {
    private static final TopicPartition IN = new TopicPartition("in", 0);
    private static final TopicPartition OUT = new TopicPartition("out", 0);

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        try (var consumer = new KafkaConsumer<String, String>(consumerSettings(servers));
             var first = producer(servers)) {
            consumer.assign(List.of(IN));
            first.initTransactions();
            for (int number = 0; number < 10; number++) {
                first.beginTransaction();
                first.send(new ProducerRecord<>("in", 0, null, "in" + number));
                first.send(new ProducerRecord<>("out", 0, null, "" + number));
                first.sendOffsetsToTransaction(
                    Map.of(IN, new OffsetAndMetadata(number)), consumer.groupMetadata());
                if (number % 2 == 0) {
                    first.commitTransaction();
                } else {
                    first.flush();
                    first.abortTransaction();
                }
            }
            first.beginTransaction();
            first.send(new ProducerRecord<>("out", 0, null, "lost")).get();
            try (var second = producer(servers)) {
                second.initTransactions();
                try {
                    first.commitTransaction();
                    System.out.println("not fenced");
                } catch (ProducerFencedException fenced) {
                    System.out.println("fenced");
                }
                second.beginTransaction();
                second.send(new ProducerRecord<>("out", 0, null, "last"));
                second.commitTransaction();
            }
            System.out.println("offset " + consumer.committed(java.util.Set.of(IN)).get(IN).offset());
            consumer.assign(List.of(OUT));
            consumer.seekToBeginning(List.of(OUT));
            List<String> values = new ArrayList<>();
            while (!values.contains("last")) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
            }
            System.out.println(String.join(" ", values));
        }
    }

    private static KafkaProducer<String, String> producer(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", "java");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static Properties consumerSettings(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", "java");
        settings.put("isolation.level", "read_committed");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }
}
