// Members of a group in ZooKeeper with Kafka 0.9's high-level consumer, each in a thread:
// ScalaMember ZOOKEEPER GROUP TOPIC STRATEGY COUNT SESSION-MS
//
// It prints "read MEMBER -1 P FIRST NEXT" for each message, commits now and then, and leaves when its input
// ends or at SIGTERM. A message counts as consumed when it is handed out, so it is printed before the next one.

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.ConsumerTimeoutException;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

public class ScalaMember {
    static final int COMMIT_EVERY = 1000;
    static volatile boolean isLeaving = false;

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[4]);
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
        Properties settings = new Properties();
        settings.put("zookeeper.connect", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("zookeeper.session.timeout.ms", arguments[5]);
        settings.put("zookeeper.connection.timeout.ms", "60000");
        settings.put("rebalance.backoff.ms", "500");
        settings.put("rebalance.max.retries", "100"); // with the default of 4 it stays a member and reads nothing
        settings.put("auto.offset.reset", "smallest");
        settings.put("auto.commit.enable", "false");
        settings.put("consumer.timeout.ms", "200");
        settings.put("fetch.wait.max.ms", "50");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        try {
            String topic = arguments[2];
            read(connector, connector.createMessageStreams(Collections.singletonMap(topic, 1)).get(topic).get(0).iterator(), member);
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // whoever waits for this member must not
        }
        connector.commitOffsets();
        connector.shutdown();
    }

    static void read(ConsumerConnector connector, ConsumerIterator<byte[], byte[]> messages, int member) {
        int uncommitted = 0;
        while (!isLeaving) {
            try {
                messages.hasNext();
                MessageAndMetadata<byte[], byte[]> message = messages.next();
                say("read " + member + " -1 " + message.partition() + " " + message.offset() + " " + (message.offset() + 1));
                uncommitted++;
            } catch (ConsumerTimeoutException nothing) {
                if (uncommitted > 0)
                    uncommitted = COMMIT_EVERY;
            }
            if (uncommitted >= COMMIT_EVERY) {
                connector.commitOffsets();
                uncommitted = 0;
            }
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
