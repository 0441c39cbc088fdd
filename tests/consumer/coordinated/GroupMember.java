// A member of a group with Kafka's own consumer, of 0.9 or later:
// GroupMember BOOTSTRAP GROUP TOPIC CLASS-OF-THE-STRATEGY, or "consumer" for the protocol of KIP-848
//
// It prints "held P P …" when its partitions change and "read P OFFSET" for each record, commits what it has
// read when partitions go, and leaves when its input ends.

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

public class GroupMember {
    static final int POLL_MS = 50;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        if (arguments[3].equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", arguments[3]);
            settings.put("heartbeat.interval.ms", "200");
            settings.put("session.timeout.ms", "10000"); // 0.9 may end before its farewell is sent
        }
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "50");
        for (String side : new String[] {"key", "value"})
            settings.put(side + ".deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        final KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Arrays.asList(arguments[2]), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                consumer.commitSync();
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
        });
        read(consumer);
        consumer.commitSync();
        consumer.close();
    }

    static void read(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        AtomicBoolean leaving = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (java.io.IOException error) {
                // It has ended, too.
            }
            leaving.set(true);
        });
        input.setDaemon(true);
        input.start();
        String told = "";
        while (!leaving.get()) {
            for (ConsumerRecord<byte[], byte[]> record : poll(consumer))
                System.out.println("read " + record.partition() + " " + record.offset());
            StringBuilder held = new StringBuilder("held");
            for (TopicPartition place : consumer.assignment())
                held.append(' ').append(place.partition());
            if (!held.toString().equals(told))
                System.out.println(told = held.toString());
            System.out.flush();
        }
    }

    /** Milliseconds were a number until 2.0, and are nothing else than a Duration since 4.0. */
    @SuppressWarnings("unchecked")
    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Object records;
        try {
            Method poll = KafkaConsumer.class.getMethod("poll", java.time.Duration.class);
            records = poll.invoke(consumer, java.time.Duration.ofMillis(POLL_MS));
        } catch (NoSuchMethodException old) {
            records = KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, (long) POLL_MS);
        }
        return (ConsumerRecords<byte[], byte[]>) records;
    }
}
