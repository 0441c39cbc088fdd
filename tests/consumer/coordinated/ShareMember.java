// Members of a share group with Kafka's own consumer, each in a thread:
// ShareMember BOOTSTRAP GROUP TOPIC share COUNT SESSION-MS
//
// It prints "read MEMBER -1 P FIRST NEXT" for records in a row, before they are acknowledged by the next poll,
// and leaves at SIGTERM.

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ShareMember {
    static volatile boolean isLeaving = false;

    public static void main(String[] arguments) throws Exception {
        List<Thread> members = IntStream.range(0, Integer.parseInt(arguments[4]))
            .mapToObj(number -> new Thread(() -> run(arguments, number))).toList();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isLeaving = true;
            for (Thread member : members) {
                try {
                    member.join();
                } catch (InterruptedException error) {
                    return;
                }
            }
        }));
        members.forEach(Thread::start);
    }

    static void run(String[] arguments, int member) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaShareConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[2]));
            while (!isLeaving) {
                String lines = lines(member, consumer.poll(Duration.ofMillis(200)));
                System.out.print(lines);
                System.out.flush();
            }
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // whoever waits for this member must not
        }
    }

    static String lines(int member, ConsumerRecords<byte[], byte[]> records) {
        StringBuilder lines = new StringBuilder();
        for (TopicPartition place : records.partitions()) {
            long first = -1, next = -1;
            for (ConsumerRecord<byte[], byte[]> record : records.records(place)) {
                if (record.offset() != next) {
                    append(lines, member, place, first, next);
                    first = record.offset();
                }
                next = record.offset() + 1;
            }
            append(lines, member, place, first, next);
        }
        return lines.toString();
    }

    static void append(StringBuilder lines, int member, TopicPartition place, long first, long next) {
        if (next > first)
            lines.append(String.format("read %d -1 %d %d %d%n", member, place.partition(), first, next));
    }
}
