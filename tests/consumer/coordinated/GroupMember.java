// Members of a group with Kafka's own consumer, of 0.9 or later, each in a thread:
// GroupMember BOOTSTRAP GROUP TOPIC CLASS-OF-THE-STRATEGY [COUNT SESSION-MS]
// Instead of a class, "consumer" is the protocol of KIP-848.
//
// It prints "held MEMBER GENERATION P P …" when the partitions of a member change and
// "read MEMBER GENERATION P FIRST NEXT" for the records of a poll. It commits after each poll and when
// partitions go, and leaves when its input ends or at SIGTERM.

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;

public class GroupMember {
    static final int POLL_MS = 50;
    static volatile boolean isLeaving = false;

    public static void main(String[] arguments) throws Exception {
        int count = arguments.length > 4 ? Integer.parseInt(arguments[4]) : 1;
        List<Thread> members = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            int member = number;
            members.add(new Thread(() -> run(arguments, member)));
        }
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (java.io.IOException error) {
                // It has ended, too.
            }
            isLeaving = true;
        });
        input.setDaemon(true);
        input.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isLeaving = true;
            join(members);
        }));
        for (Thread member : members)
            member.start();
        join(members);
    }

    static void join(List<Thread> members) {
        try {
            for (Thread member : members)
                member.join();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void run(String[] arguments, int member) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(arguments))) {
            consumer.subscribe(Arrays.asList(arguments[2]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    commit(consumer);
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
            });
            read(consumer, member);
            commit(consumer);
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // whoever waits for this member must not
        }
    }

    static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        if (arguments[3].equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", arguments[3]);
            settings.put("heartbeat.interval.ms", "200");
            // 0.9 may end before its farewell is sent.
            settings.put("session.timeout.ms", arguments.length > 5 ? arguments[5] : "10000");
        }
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "50");
        for (String side : new String[] {"key", "value"})
            settings.put(side + ".deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        return settings;
    }

    /** Refused if others have the partitions by now: they read again what this member could not commit. */
    static void commit(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            consumer.commitSync();
        } catch (KafkaException refused) {
            // The next poll rebalances.
        }
    }

    static void read(KafkaConsumer<byte[], byte[]> consumer, int member) throws Exception {
        String told = "";
        while (!isLeaving) {
            ConsumerRecords<byte[], byte[]> records = poll(consumer);
            String who = " " + member + " " + generation(consumer);
            StringBuilder held = new StringBuilder("held").append(who);
            for (TopicPartition place : consumer.assignment())
                held.append(' ').append(place.partition());
            StringBuilder lines = new StringBuilder();
            if (!held.toString().equals(told))
                lines.append(told = held.toString()).append('\n');
            for (TopicPartition place : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> some = records.records(place);
                long first = some.get(0).offset(), next = some.get(some.size() - 1).offset() + 1;
                if (next - first != some.size())
                    throw new IllegalStateException(place + " is out of order from " + first + " to " + next);
                lines.append("read").append(who).append(' ').append(place.partition());
                lines.append(' ').append(first).append(' ').append(next).append('\n');
            }
            System.out.print(lines);
            System.out.flush();
            if (!records.isEmpty())
                commit(consumer);
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
        } catch (java.lang.reflect.InvocationTargetException error) {
            if (!(error.getCause() instanceof ApiException))
                throw error;
            System.err.println(error.getCause()); // a member that was late is unknown: the next poll joins again
            return ConsumerRecords.empty();
        }
        return (ConsumerRecords<byte[], byte[]>) records;
    }

    /** The generation or epoch of the member; -1 before 2.5, where nobody could know. */
    static int generation(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            Object metadata = KafkaConsumer.class.getMethod("groupMetadata").invoke(consumer);
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
            return (int) kind.getMethod("generationId").invoke(metadata);
        } catch (NoSuchMethodException old) {
            return -1;
        }
    }
}
