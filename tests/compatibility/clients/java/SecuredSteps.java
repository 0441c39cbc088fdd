// The Java producer and consumer on secured listeners: SecuredSteps FILE...
// Each file has the settings of one login, and of what is to be done under step, topic, group, value, wrong.

import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class SecuredSteps {
    private static final long WAIT_MS = 30_000;

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties login = new Properties();
            try (FileReader reader = new FileReader(file)) {
                login.load(reader);
            }
            String step = (String) login.remove("step");
            boolean isWrong = Boolean.parseBoolean((String) login.remove("wrong"));
            String detail;
            boolean isIn = false;
            try {
                detail = roundTrip(login);
                isIn = true;
            } catch (Exception error) {
                detail = chain(error);
            }
            String outcome = isIn != isWrong ? "passed" : "failed";
            String text = detail.replace("\\", "\\\\").replace("\"", "'").replace("\n", " ");
            System.out.printf("{\"step\": \"%s\", \"outcome\": \"%s\", \"detail\": \"%s\"}%n", step, outcome, text);
        }
        System.out.println("{\"done\": true}");
    }

    private static String chain(Throwable error) {
        String text = String.valueOf(error);
        return error.getCause() == null ? text : text + " <- " + chain(error.getCause());
    }

    private static String roundTrip(Properties login) throws Exception {
        Properties settings = new Properties();
        settings.putAll(login);
        String topic = (String) settings.remove("topic"), group = (String) settings.remove("group");
        String value = (String) settings.remove("value");
        settings.put("max.block.ms", "20000");
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
        settings.remove("max.block.ms");
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (long end = System.currentTimeMillis() + WAIT_MS; System.currentTimeMillis() < end; ) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    consumer.commitSync();
                    if (!record.value().equals(value)) {
                        throw new IllegalStateException("got " + record.value());
                    }
                    return value;
                }
            }
        }
        throw new IllegalStateException("no record within 30 s");
    }
}
