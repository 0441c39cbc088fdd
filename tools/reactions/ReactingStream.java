// Kafka 0.9's high-level consumer, which says what it does: ReactingStream ZOOKEEPER TOPIC STORAGE
//
// Commands, one per line: "open GROUP", "close", "commit", "mark N". It prints "opened", "closed", "committed",
// "marked N", and "read OFFSET" or "raised CLASS" whenever that happens. It ends when its input ends.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;

public final class ReactingStream {
    public static void main(String[] arguments) throws Exception {
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        ConsumerConnector connector = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                if (line.startsWith("open ")) {
                    connector = Consumer.createJavaConsumerConnector(settings(arguments, line.substring(5)));
                    read(connector, arguments[1]);
                    say("opened");
                } else if (line.equals("close")) {
                    if (connector != null) connector.shutdown();
                    connector = null;
                    say("closed");
                } else if (line.equals("commit")) {
                    connector.commitOffsets(false);  // 0.9 takes it for "is no auto-commit": then it tries again
                    say("committed");
                } else if (line.startsWith("mark ")) {
                    say("marked " + line.substring(5));
                }
            } catch (Exception error) {
                say("raised " + error.getClass().getSimpleName());
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static ConsumerConfig settings(String[] arguments, String group) {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", arguments[0]);
        settings.put("zookeeper.connection.timeout.ms", "30000");
        settings.put("group.id", group);
        settings.put("offsets.storage", arguments[2]);
        settings.put("dual.commit.enabled", "false");
        settings.put("offsets.channel.backoff.ms", "20");
        settings.put("auto.offset.reset", "smallest");
        settings.put("auto.commit.enable", "false");
        settings.put("fetch.wait.max.ms", "20");
        settings.put("refresh.leader.backoff.ms", "20");
        settings.put("rebalance.backoff.ms", "20");
        return new ConsumerConfig(settings);
    }

    static void read(ConsumerConnector connector, String topic) {
        KafkaStream<byte[], byte[]> stream =
            connector.createMessageStreams(Collections.singletonMap(topic, 1)).get(topic).get(0);
        Thread thread = new Thread(() -> {
            try {
                ConsumerIterator<byte[], byte[]> messages = stream.iterator();
                while (messages.hasNext()) say("read " + messages.next().offset());
            } catch (Exception error) {
                say("raised " + error.getClass().getSimpleName());
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
