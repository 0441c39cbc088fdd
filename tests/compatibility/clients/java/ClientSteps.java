// The Java producer, consumer and admin client: every step of the matrix. Compiled against Kafka 3.9 and 4.x.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ClientSteps {
    static final int PARTITIONS = 3;
    static final long FIRST_TIME_MS = System.currentTimeMillis() - 60_000;
    static final Scanner ANSWERS = new Scanner(System.in);
    static String bootstrap, prefix, topic, group;
    static Admin admin;

    interface Step {
        void run() throws Exception;
    }

    static class Skip extends Exception {
        Skip(String reason) {
            super(reason);
        }
    }

    record Row(int partition, long timeMs, String key, String value, String headers) {}

    /** The version in the jar; the class that tells it is another one since 4.4. */
    private static String version() {
        Properties version = new Properties();
        try (var file = KafkaConsumer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(file);
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
        return version.getProperty("version");
    }

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        prefix = arguments[1];
        topic = prefix + "-topic";
        group = prefix + "-group";
        admin = Admin.create(new HashMap<>(Map.of("bootstrap.servers", bootstrap)));
        say("version", version());
        for (Map.Entry<String, Step> step : steps().entrySet()) {
            attempt(step.getKey(), step.getValue());
        }
        say("done", "yes");
        Runtime.getRuntime().halt(0);
    }

    static Map<String, Step> steps() {
        Map<String, Step> steps = new LinkedHashMap<>();
        steps.put("create a topic", ClientSteps::createTopic);
        steps.put("create a topic by producing", ClientSteps::autoCreation);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            steps.put("produce and consume, " + codec, () -> codec(codec));
        }
        steps.put("produce idempotently", ClientSteps::idempotent);
        steps.put("too large a record is refused", ClientSteps::tooLarge);
        steps.put("offsets for times", ClientSteps::offsetsForTimes);
        steps.put("consume in a group and commit", ClientSteps::groupCommit);
        steps.put("rebalance: one joins, one leaves", ClientSteps::rebalance);
        steps.put("go on after a restart of the broker", ClientSteps::goOnAfterRestart);
        steps.put("transactions: commit and abort, with positions", ClientSteps::commitAndAbort);
        steps.put("transactions: a newer producer fences the older", ClientSteps::fenced);
        steps.put("transactions: aborted after their timeout", ClientSteps::timedOut);
        steps.put("transactions: committed after a restart of the broker", ClientSteps::committedAfterRestart);
        steps.put("describe the cluster", ClientSteps::describeCluster);
        steps.put("describe a topic", ClientSteps::describeTopic);
        steps.put("describe configs", ClientSteps::describeConfigs);
        steps.put("alter a config", ClientSteps::alterConfig);
        steps.put("create partitions", ClientSteps::createPartitions);
        steps.put("list offsets", ClientSteps::listOffsets);
        steps.put("delete records", ClientSteps::deleteRecords);
        steps.put("list groups", ClientSteps::listGroups);
        steps.put("describe a group", ClientSteps::describeGroup);
        steps.put("list a group's offsets", ClientSteps::groupOffsets);
        steps.put("alter a group's offsets", ClientSteps::alterGroupOffsets);
        steps.put("delete a group's offsets", ClientSteps::deleteGroupOffsets);
        steps.put("delete a group", ClientSteps::deleteGroup);
        steps.put("delete a topic", ClientSteps::deleteTopic);
        return steps;
    }

    // ---- verdicts

    static void attempt(String name, Step step) {
        try {
            step.run();
            say("step", name, "outcome", "passed");
        } catch (Skip reason) {
            say("step", name, "outcome", "skipped", "detail", reason.getMessage());
        } catch (Throwable error) {
            String where = Arrays.stream(error.getStackTrace())
                .filter(frame -> frame.getClassName().equals("ClientSteps"))
                .map(frame -> frame.getMethodName() + ":" + frame.getLineNumber())
                .limit(3).collect(Collectors.joining(" < "));
            String cause = error.getCause() == null ? "" : " because of " + error.getCause();
            say("step", name, "outcome", "failed", "detail", error + cause + " (at " + where + ")");
        }
    }

    static void say(String... pairs) {
        List<String> fields = new ArrayList<>();
        for (int i = 0; i < pairs.length; i += 2) {
            fields.add(quoted(pairs[i]) + ": " + quoted(pairs[i + 1]));
        }
        System.out.println("{" + String.join(", ", fields) + "}");
        System.out.flush();
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.substring(0, Math.min(600, text.length())).toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 32 || c > 126) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    static void restart() throws Skip {
        say("ask", "restart");
        if (!ANSWERS.nextLine().equals("restarted")) {
            throw new Skip("this broker cannot be restarted by the test");
        }
    }

    static void same(Object got, Object wanted, String what) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError(what + ": got " + got + ", wanted " + wanted);
        }
    }

    static void until(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!condition.call()) {
            if (System.nanoTime() > deadline) throw new AssertionError(what + ": not within 30 s");
            Thread.sleep(20);
        }
    }

    // ---- producing and consuming

    static List<Row> sample(int count) {
        List<Row> rows = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            String key = number % 5 == 4 ? null : "key " + number;
            String value = number % 10 == 3 ? "" : number % 10 == 6 ? null
                : ("value " + number + " ").repeat(1 + number % 7 * 40);
            String headers = List.of("", "kind=sample;", "kind=sample;number=" + number + ";").get(number % 3);
            rows.add(new Row(number % PARTITIONS, FIRST_TIME_MS + 1000L * number, key, value, headers));
        }
        return rows;
    }

    static List<Row> inOrder(List<Row> rows) {
        List<Row> sorted = new ArrayList<>(rows);
        sorted.sort(Comparator.comparingInt(Row::partition));
        return sorted;
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("linger.ms", 5);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String groupId) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        if (groupId != null) settings.put("group.id", groupId);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("session.timeout.ms", 6000);
        settings.put("heartbeat.interval.ms", 500);
        settings.put("fetch.max.wait.ms", 100);
        settings.put("metadata.max.age.ms", 1000);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static void send(KafkaProducer<byte[], byte[]> to, String topic, List<Row> rows) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Row row : rows) {
            List<Header> headers = new ArrayList<>();
            for (String each : row.headers().split(";")) {
                if (each.isEmpty()) continue;
                headers.add(new RecordHeader(each.split("=")[0], bytes(each.split("=")[1])));
            }
            sent.add(to.send(new ProducerRecord<>(
                topic, row.partition(), row.timeMs(), bytes(row.key()), bytes(row.value()), headers)));
        }
        to.flush();
        for (Future<RecordMetadata> each : sent) each.get(20, TimeUnit.SECONDS);
    }

    static void sendOnce(String topic, List<Row> rows, Map<String, Object> settings) throws Exception {
        try (KafkaProducer<byte[], byte[]> sender = producer(settings)) {
            send(sender, topic, rows);
        }
    }

    static List<Row> read(KafkaConsumer<byte[], byte[]> member, int count) throws Exception {
        List<Row> rows = new ArrayList<>();
        until(() -> {
            for (ConsumerRecord<byte[], byte[]> got : member.poll(Duration.ofMillis(200))) {
                StringBuilder headers = new StringBuilder();
                for (Header each : got.headers()) {
                    headers.append(each.key()).append('=').append(text(each.value())).append(';');
                }
                rows.add(new Row(
                    got.partition(), got.timestamp(), text(got.key()), text(got.value()), headers.toString()));
            }
            return rows.size() >= count;
        }, count + " records");
        return inOrder(rows);
    }

    static List<Row> readAll(String topic, int count) throws Exception {
        try (KafkaConsumer<byte[], byte[]> reader = consumer(null)) {
            reader.assign(partitions(topic));
            reader.seekToBeginning(partitions(topic));
            return read(reader, count);
        }
    }

    static List<TopicPartition> partitions(String topic) {
        List<TopicPartition> all = new ArrayList<>();
        for (int each = 0; each < PARTITIONS; each++) all.add(new TopicPartition(topic, each));
        return all;
    }

    static List<Long> committed(KafkaConsumer<byte[], byte[]> member, String topic) {
        Map<TopicPartition, OffsetAndMetadata> found = member.committed(Set.copyOf(partitions(topic)));
        return partitions(topic).stream().map(each -> found.get(each).offset()).collect(Collectors.toList());
    }

    static void create(String topic, int partitions, Map<String, String> configs) throws Exception {
        NewTopic wanted = new NewTopic(topic, partitions, (short) 1).configs(configs);
        admin.createTopics(List.of(wanted)).all().get(20, TimeUnit.SECONDS);
    }

    static void createTopic() throws Exception {
        create(topic, PARTITIONS, Map.of());
        until(() -> admin.listTopics().names().get().contains(topic), "the topic in the metadata");
        try {
            create(topic, PARTITIONS, Map.of());
        } catch (ExecutionException error) {
            same(error.getCause().getClass(), TopicExistsException.class, "error of a second creation");
            return;
        }
        throw new AssertionError("a second creation was accepted");
    }

    static void autoCreation() throws Exception {
        String name = prefix + "-auto";
        sendOnce(name, List.of(new Row(0, FIRST_TIME_MS, "k", "v", "")), Map.of());
        same(describe(name).partitions().size(), 1, "partitions");
    }

    static void codec(String codec) throws Exception {
        String name = prefix + "-" + codec;
        create(name, PARTITIONS, Map.of());
        sendOnce(name, sample(30), Map.of("compression.type", codec, "enable.idempotence", false));
        same(readAll(name, 30), inOrder(sample(30)), "records");
    }

    static void idempotent() throws Exception {
        String name = prefix + "-idempotent";
        create(name, PARTITIONS, Map.of());
        sendOnce(name, sample(30), Map.of("enable.idempotence", true, "acks", "all"));
        same(readAll(name, 30), inOrder(sample(30)), "records");
    }

    static void tooLarge() throws Exception {
        String name = prefix + "-large";
        create(name, PARTITIONS, Map.of("max.message.bytes", "2000"));
        try {
            sendOnce(name, List.of(new Row(0, FIRST_TIME_MS, null, "x".repeat(5000), "")), Map.of());
        } catch (ExecutionException error) {
            same(error.getCause().getClass(), RecordTooLargeException.class, "error");
            return;
        }
        throw new AssertionError("a record above max.message.bytes was accepted");
    }

    static void offsetsForTimes() throws Exception {
        List<TopicPartition> asked = partitions(prefix + "-none");
        long time = sample(30).get(15).timeMs();
        try (KafkaConsumer<byte[], byte[]> reader = consumer(null)) {
            var found = reader.offsetsForTimes(asked.stream().collect(Collectors.toMap(p -> p, p -> time)));
            for (TopicPartition each : asked) same(found.get(each).offset(), 5L, "offset of " + each);
            for (long end : reader.endOffsets(asked).values()) same(end, 10L, "end offset");
            for (long first : reader.beginningOffsets(asked).values()) same(first, 0L, "first offset");
        }
    }

    // ---- groups

    static void groupCommit() throws Exception {
        sendOnce(topic, sample(30), Map.of());
        try (KafkaConsumer<byte[], byte[]> member = consumer(group)) {
            member.subscribe(List.of(topic));
            same(read(member, 30), inOrder(sample(30)), "records");
            member.commitSync();
            same(committed(member, topic), List.of(10L, 10L, 10L), "committed");
        }
        try (KafkaConsumer<byte[], byte[]> again = consumer(group)) {
            again.subscribe(List.of(topic));
            sendOnce(topic, sample(3), Map.of());
            same(read(again, 3), inOrder(sample(3)), "records behind the commit");
            again.commitSync();
        }
    }

    @SafeVarargs
    static List<Set<Integer>> owned(KafkaConsumer<byte[], byte[]>... members) {
        List<Set<Integer>> all = new ArrayList<>();
        for (KafkaConsumer<byte[], byte[]> member : members) member.poll(Duration.ofMillis(50));
        for (KafkaConsumer<byte[], byte[]> member : members) {
            all.add(member.assignment().stream().map(TopicPartition::partition)
                .collect(Collectors.toCollection(TreeSet::new)));
        }
        return all;
    }

    static void rebalance() throws Exception {
        String name = prefix + "-rebalance";
        create(name, 4, Map.of());
        Set<Integer> all = Set.of(0, 1, 2, 3);
        try (KafkaConsumer<byte[], byte[]> first = consumer(name)) {
            first.subscribe(List.of(name));
            until(() -> owned(first).get(0).equals(all), "all partitions with one member");
            try (KafkaConsumer<byte[], byte[]> second = consumer(name)) {
                second.subscribe(List.of(name));
                until(() -> {
                    List<Set<Integer>> both = owned(first, second);
                    Set<Integer> together = new TreeSet<>(both.get(0));
                    together.addAll(both.get(1));
                    return both.get(0).size() == 2 && both.get(1).size() == 2 && together.equals(all);
                }, "two partitions each");
            }
            until(() -> owned(first).get(0).equals(all), "all partitions with the one that stays");
        }
    }

    static void goOnAfterRestart() throws Exception {
        String name = prefix + "-restart";
        create(name, PARTITIONS, Map.of());
        try (KafkaProducer<byte[], byte[]> sender = producer(Map.of());
             KafkaConsumer<byte[], byte[]> member = consumer(name)) {
            send(sender, name, sample(30));
            member.subscribe(List.of(name));
            read(member, 30);
            member.commitSync();
            restart();
            send(sender, name, sample(6));
            same(read(member, 6), inOrder(sample(6)), "records behind the restart");
            member.commitSync();
            same(committed(member, name), List.of(12L, 12L, 12L), "committed");
        }
    }

    // ---- administration

    static TopicDescription describe(String name) throws Exception {
        return admin.describeTopics(List.of(name)).allTopicNames().get(10, TimeUnit.SECONDS).get(name);
    }

    static void describeCluster() throws Exception {
        DescribeClusterResult found = admin.describeCluster();
        Collection<Node> nodes = found.nodes().get(10, TimeUnit.SECONDS);
        same(nodes.stream().map(node -> node.host() + ":" + node.port()).toList(), List.of(bootstrap), "nodes");
        same(found.controller().get().id(), nodes.iterator().next().id(), "controller");
        same(found.clusterId().get().isEmpty(), false, "cluster id is empty");
    }

    static void describeTopic() throws Exception {
        TopicDescription found = describe(topic);
        same(found.partitions().stream().map(each -> each.partition()).toList(), List.of(0, 1, 2), "partitions");
        same(found.partitions().stream().map(each -> each.isr().size()).toList(), List.of(1, 1, 1), "isr");
    }

    static Config configs(ConfigResource.Type type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        return admin.describeConfigs(List.of(resource)).all().get(10, TimeUnit.SECONDS).get(resource);
    }

    static void describeConfigs() throws Exception {
        same(configs(ConfigResource.Type.TOPIC, topic).get("cleanup.policy").value(), "delete", "cleanup.policy");
        String node = admin.describeCluster().nodes().get().iterator().next().idString();
        same(configs(ConfigResource.Type.BROKER, node).get("num.partitions").value(), "1", "num.partitions");
    }

    static void alterConfig() throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "12345678"), AlterConfigOp.OpType.SET);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get(10, TimeUnit.SECONDS);
        until(() -> configs(ConfigResource.Type.TOPIC, topic).get("retention.ms").value().equals("12345678"),
            "the new value");
    }

    static void createPartitions() throws Exception {
        String name = prefix + "-more";
        create(name, 1, Map.of());
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4))).all().get(10, TimeUnit.SECONDS);
        until(() -> describe(name).partitions().size() == 4, "4 partitions");
    }

    static void listOffsets() throws Exception {
        List<TopicPartition> asked = partitions(prefix + "-none");
        var found = admin.listOffsets(Map.of(
            asked.get(0), OffsetSpec.earliest(), asked.get(1), OffsetSpec.latest(),
            asked.get(2), OffsetSpec.maxTimestamp())).all().get(10, TimeUnit.SECONDS);
        same(asked.stream().map(each -> found.get(each).offset()).toList(), List.of(0L, 10L, 9L), "offsets");
    }

    static void deleteRecords() throws Exception {
        TopicPartition part = new TopicPartition(prefix + "-gzip", 0);
        var found = admin.deleteRecords(Map.of(part, RecordsToDelete.beforeOffset(4)));
        same(found.lowWatermarks().get(part).get(10, TimeUnit.SECONDS).lowWatermark(), 4L, "low watermark");
        try (KafkaConsumer<byte[], byte[]> reader = consumer(null)) {
            same(reader.beginningOffsets(List.of(part)), Map.of(part, 4L), "first offset");
        }
    }

    static boolean isListed() throws Exception {
        return admin.listConsumerGroups().all().get(10, TimeUnit.SECONDS).stream()
            .anyMatch(each -> each.groupId().equals(group));
    }

    static void listGroups() throws Exception {
        same(isListed(), true, "listed");
    }

    static void describeGroup() throws Exception {
        String name = prefix + "-described";
        try (KafkaConsumer<byte[], byte[]> member = consumer(name)) {
            member.subscribe(List.of(topic));
            until(() -> owned(member).get(0).size() == 3, "an assignment");
            ConsumerGroupDescription found =
                admin.describeConsumerGroups(List.of(name)).all().get(10, TimeUnit.SECONDS).get(name);
            same(found.members().size(), 1, "members");
            same(found.members().iterator().next().assignment().topicPartitions().size(), 3, "its partitions");
            same(found.toString().toUpperCase().contains("STATE=STABLE"), true, "stable in " + found);
        }
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets() throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(10, TimeUnit.SECONDS);
    }

    static void groupOffsets() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> found = offsets();
        same(found.keySet(), Set.copyOf(partitions(topic)), "partitions");
        for (OffsetAndMetadata each : found.values()) same(each.offset(), 11L, "offset");
    }

    static void alterGroupOffsets() throws Exception {
        TopicPartition part = new TopicPartition(topic, 1);
        admin.alterConsumerGroupOffsets(group, Map.of(part, new OffsetAndMetadata(7))).all()
            .get(10, TimeUnit.SECONDS);
        same(offsets().get(part).offset(), 7L, "offset");
    }

    static void deleteGroupOffsets() throws Exception {
        TopicPartition part = new TopicPartition(topic, 2);
        admin.deleteConsumerGroupOffsets(group, Set.of(part)).all().get(10, TimeUnit.SECONDS);
        same(offsets().containsKey(part), false, "offset still there");
    }

    static void deleteGroup() throws Exception {
        admin.deleteConsumerGroups(Collections.singleton(group)).all().get(10, TimeUnit.SECONDS);
        same(isListed(), false, "still listed");
    }

    static void deleteTopic() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get(10, TimeUnit.SECONDS);
        until(() -> !admin.listTopics().names().get().contains(topic), "the topic gone from the metadata");
    }

    // ---- transactions

    static KafkaProducer<byte[], byte[]> transactional(String name, int timeoutMs) {
        KafkaProducer<byte[], byte[]> made =
            producer(Map.of("transactional.id", prefix + name, "transaction.timeout.ms", timeoutMs));
        made.initTransactions();
        return made;
    }

    static KafkaProducer<byte[], byte[]> begun(String name, int timeoutMs, String value) throws Exception {
        KafkaProducer<byte[], byte[]> made = transactional(name, timeoutMs);
        made.beginTransaction();
        put(made, prefix + name, value);
        return made;
    }

    static void put(KafkaProducer<byte[], byte[]> producer, String name, String value) throws Exception {
        producer.send(new ProducerRecord<>(name, value.getBytes())).get(30, TimeUnit.SECONDS);
    }

    static void refused(KafkaProducer<byte[], byte[]> producer) {
        boolean isRefused = false;
        try {
            producer.commitTransaction();
        } catch (ProducerFencedException | InvalidProducerEpochException | InvalidTxnStateException fenced) {
            isRefused = true;
        }
        producer.close(Duration.ZERO);
        same(isRefused, true, "the commit was refused");
    }

    static void holds(String name, String... wanted) throws Exception {
        List<String> values = new ArrayList<>();
        TopicPartition place = new TopicPartition(name, 0);
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        try (var reader = new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            reader.assign(List.of(place));
            until(() -> {
                reader.poll(Duration.ofMillis(200)).forEach(each -> values.add(new String(each.value())));
                return values.size() >= wanted.length;
            }, wanted.length + " records");
        }
        same(values, List.of(wanted), "committed values");
    }

    static void commitAndAbort() throws Exception {
        String name = prefix + "-ended";
        create(name, 1, Map.of());
        TopicPartition place = new TopicPartition(name, 0);
        try (var producer = transactional("-ended", 60_000)) {
            for (int number = 0; number < 5; number++) {
                producer.beginTransaction();
                put(producer, name, "" + number);
                producer.sendOffsetsToTransaction(
                    Map.of(place, new OffsetAndMetadata(number + 1)), new ConsumerGroupMetadata(name));
                if (number % 2 == 0) producer.commitTransaction();
                else producer.abortTransaction();
            }
        }
        holds(name, "0", "2", "4");
        var found = admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get(10, TimeUnit.SECONDS);
        same(found.get(place).offset(), 5L, "position");
        int epoch = admin.describeTransactions(List.of(name)).all().get(10, TimeUnit.SECONDS).get(name).producerEpoch();
        same(epoch > 0, !version().startsWith("3."), "since 4.0 every end raises the epoch");
    }

    static void fenced() throws Exception {
        String name = prefix + "-fenced";
        create(name, 1, Map.of());
        var first = begun("-fenced", 60_000, "lost");
        try (var second = begun("-fenced", 60_000, "kept")) {
            refused(first);
            second.commitTransaction();
        }
        holds(name, "kept");
    }

    static void timedOut() throws Exception {
        String name = prefix + "-late";
        create(name, 1, Map.of());
        var late = begun("-late", 1_000, "lost");
        try (var other = producer(Map.of())) {
            put(other, name, "behind");
        }
        holds(name, "behind");
        refused(late);
    }

    static void committedAfterRestart() throws Exception {
        String name = prefix + "-restarted";
        create(name, 1, Map.of());
        try (var producer = begun("-restarted", 60_000, "before")) {
            restart();
            put(producer, name, "after");
            producer.commitTransaction();
        }
        holds(name, "before", "after");
    }
}
