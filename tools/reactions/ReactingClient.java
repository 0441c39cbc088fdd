// Kafka's own consumer and producer, of 0.9 or later, which say what they do: ReactingClient BOOTSTRAP TOPIC
//
// Commands, one per line: "open GROUP", "close", "commit", "send VALUE" (by a new producer after an error),
// "mark N" (polls once more). It prints "opened", "closed", "committed", "sent", "marked N", and "read OFFSET"
// or "raised CLASS" whenever that happens. It ends when its input ends.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public final class ReactingClient {
    static final ConcurrentLinkedQueue<String> COMMANDS = new ConcurrentLinkedQueue<>();
    static volatile boolean isEnding;

    public static void main(String[] arguments) throws Exception {
        Thread input = new Thread(ReactingClient::listen);
        input.setDaemon(true);
        input.start();
        KafkaConsumer<byte[], byte[]> consumer = null;
        KafkaProducer<byte[], byte[]> producer = null;
        say("ready");
        while (!isEnding) {
            String command = COMMANDS.poll();
            try {
                if (command == null || command.startsWith("mark ")) {
                    if (consumer == null) Thread.sleep(5);
                    else for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) say("read " + record.offset());
                } else if (command.startsWith("open ")) {
                    consumer = opened(arguments[0], arguments[1], command.substring(5));
                    say("opened");
                } else if (command.equals("close")) {
                    if (consumer != null) close(consumer);
                    consumer = null;
                    say("closed");
                } else if (command.equals("commit")) {
                    consumer.commitSync();
                    say("committed");
                } else if (command.startsWith("send ")) {
                    if (producer == null) producer = new KafkaProducer<>(producing(arguments[0]));
                    producer.send(new ProducerRecord<>(arguments[1], command.getBytes())).get();
                    say("sent");
                }
            } catch (ExecutionException error) {
                say("raised " + error.getCause().getClass().getSimpleName());
                producer.close();
                producer = null;
            } catch (Exception error) {
                Throwable cause = error instanceof java.lang.reflect.InvocationTargetException ? error.getCause() : error;
                say("raised " + cause.getClass().getSimpleName());
            }
            if (command != null && command.startsWith("mark ")) say("marked " + command.substring(5));
        }
        Runtime.getRuntime().halt(0);
    }

    static void listen() {
        try {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) COMMANDS.add(line);
        } catch (java.io.IOException error) {
            // It has ended, too.
        }
        isEnding = true;
    }

    static void close(KafkaConsumer<byte[], byte[]> consumer) {
        Thread closing = new Thread(() -> {
            try {
                consumer.close();
            } catch (Exception error) {
                // The next one is of another group.
            }
        });
        try {
            closing.start();
            closing.join(10_000);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    static KafkaConsumer<byte[], byte[]> opened(String bootstrap, String topic, String group) {
        Properties settings = quick(bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("heartbeat.interval.ms", "20");
        settings.put("session.timeout.ms", "1000");
        settings.put("fetch.max.wait.ms", "20");
        settings.put("default.api.timeout.ms", "3000");
        for (String side : new String[] {"key", "value"})
            settings.put(side + ".deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Arrays.asList(topic));
        return consumer;
    }

    static Properties producing(String bootstrap) {
        Properties settings = quick(bootstrap);
        settings.put("linger.ms", "0");
        settings.put("retries", "3");
        for (String side : new String[] {"key", "value"})
            settings.put(side + ".serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        return settings;
    }

    static Properties quick(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("retry.backoff.ms", "5");
        settings.put("retry.backoff.max.ms", "20");
        settings.put("reconnect.backoff.ms", "5");
        settings.put("request.timeout.ms", "2000");
        return settings;
    }

    @SuppressWarnings("unchecked")
    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Method poll;
        try {
            poll = KafkaConsumer.class.getMethod("poll", java.time.Duration.class);
            return (ConsumerRecords<byte[], byte[]>) poll.invoke(consumer, java.time.Duration.ofMillis(20));
        } catch (NoSuchMethodException old) {
            poll = KafkaConsumer.class.getMethod("poll", long.class);
            return (ConsumerRecords<byte[], byte[]>) poll.invoke(consumer, 20L);
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
