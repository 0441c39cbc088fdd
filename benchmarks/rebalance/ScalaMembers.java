import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.javaapi.consumer.ConsumerRebalanceListener;
import kafka.message.MessageAndMetadata;

/**
 * Kafka 0.9's high-level consumers as members of a group, as member_host.py has ours: the same lines in and out.
 *
 * <p>Arguments: the topic, then NAME=VALUE. `count` tells how often a member began to fetch after a rebalance.
 */
public final class ScalaMembers {
    private static final Map<String, ConsumerConnector> MEMBERS = new ConcurrentHashMap<>();
    private static final Map<String, AtomicInteger> STARTS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws IOException {
        String topic = args[0];
        Properties common = parsed(Arrays.copyOfRange(args, 1, args.length));
        say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String name = words[1];
            if (words[0].equals("count")) {
                say("count " + name + " " + STARTS.get(name));
            } else if (words[0].equals("leave")) {
                begin(() -> leave(name));
            } else {
                Properties given = new Properties();
                given.putAll(common);
                given.putAll(parsed(Arrays.copyOfRange(words, 2, words.length)));
                begin(() -> join(topic, name, given));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void join(String topic, String name, Properties given) {
        long pause = Long.parseLong(given.getProperty("pause.ms", "0"));
        given.remove("pause.ms");
        given.setProperty("consumer.id", name);
        AtomicInteger starts = new AtomicInteger();
        STARTS.put(name, starts);
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(given));
        connector.setConsumerRebalanceListener(new Counter(starts));
        MEMBERS.put(name, connector);
        KafkaStream<byte[], byte[]> stream;
        try {
            stream = connector.createMessageStreams(Map.of(topic, 1)).get(topic).get(0);
        } catch (RuntimeException error) {
            say("failed " + name + " " + error);
            return;
        }
        say("joined " + name + " " + System.nanoTime());
        ConsumerIterator<byte[], byte[]> messages = stream.iterator();
        while (messages.hasNext()) {
            MessageAndMetadata<byte[], byte[]> one = messages.next();
            say("record " + name + " " + one.partition() + " " + one.offset() + " " + System.nanoTime());
            if (pause > 0) {
                sleep(pause);
            }
        }
    }

    private static void leave(String name) {
        MEMBERS.get(name).shutdown();
        say("left " + name + " " + System.nanoTime());
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static Properties parsed(String[] words) {
        Properties found = new Properties();
        for (String word : words) {
            String[] pair = word.split("=", 2);
            found.setProperty(pair[0], pair[1]);
        }
        return found;
    }

    private static void begin(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static final class Counter implements ConsumerRebalanceListener {
        private final AtomicInteger starts;

        Counter(AtomicInteger starts) {
            this.starts = starts;
        }

        @Override
        public void beforeReleasingPartitions(Map<String, java.util.Set<Integer>> ownership) {}

        @Override
        public void beforeStartingFetchers(
                String consumer, Map<String, Map<Integer, kafka.consumer.ConsumerThreadId>> assignment) {
            starts.incrementAndGet();
        }
    }
}
