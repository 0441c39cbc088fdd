import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Reads, accepts, releases, rejects and renews with Kafka's own share consumer; asks with its admin. */
public class ShareSteps {
    private static final String TOPIC = "orders";

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            for (String group : List.of("implicit", "explicit")) {
                var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
                var entry = new ConfigEntry("share.auto.offset.reset", "earliest");
                var change = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
                Map<ConfigResource, Collection<AlterConfigOp>> changes = Map.of(resource, List.of(change));
                admin.incrementalAlterConfigs(changes).all().get();
            }
            implicit(servers);
            explicit(servers, admin);
            tools(admin);
        }
    }

    private static KafkaShareConsumer<String, String> consumer(String servers, String group, String mode) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", mode);
        var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(TOPIC));
        return consumer;
    }

    private static void implicit(String servers) {
        List<String> values = new ArrayList<>();
        try (var consumer = consumer(servers, "implicit", "implicit")) {
            while (values.size() < 10) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    values.add(record.value() + ":" + record.deliveryCount().get());
                }
            }
            consumer.commitSync();
        }
        System.out.println("implicit " + values);
    }

    private static void explicit(String servers, Admin admin) throws Exception {
        Map<Long, Integer> deliveries = new TreeMap<>();
        int renewals = 0;
        try (var consumer = consumer(servers, "explicit", "explicit")) {
            while (deliveries.size() < 10 || deliveries.get(3L) < 2 || renewals < 2) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    int delivery = record.deliveryCount().get();
                    deliveries.put(record.offset(), delivery);
                    if (record.offset() == 3 && delivery == 1) {
                        consumer.acknowledge(record, AcknowledgeType.RELEASE);
                    } else if (record.offset() == 4) {
                        consumer.acknowledge(record, AcknowledgeType.REJECT);
                    } else if (record.offset() == 5) {
                        // What is renewed comes again with the next poll.
                        consumer.acknowledge(record, renewals++ == 0 ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT);
                    } else {
                        consumer.acknowledge(record);
                    }
                }
                consumer.commitSync().forEach((one, error) -> error.ifPresent(System.out::println));
            }
            var group = admin.describeShareGroups(List.of("explicit")).all().get().get("explicit");
            System.out.println("described " + group.groupState() + " " + group.members().size() + " "
                + group.members().iterator().next().assignment().topicPartitions());
        }
        System.out.println("explicit " + deliveries);
    }

    private static void tools(Admin admin) throws Exception {
        var options = new ListGroupsOptions().withTypes(Set.of(GroupType.SHARE));
        List<String> names = new ArrayList<>();
        for (GroupListing group : admin.listGroups(options).all().get()) {
            names.add(group.groupId() + " " + group.type().get() + " " + group.groupState().get());
        }
        names.sort(null);
        System.out.println("listed " + names);
        var partition = new TopicPartition(TOPIC, 0);
        admin.alterShareGroupOffsets("explicit", Map.of(partition, 7L)).all().get();
        var spec = Map.of("explicit", new ListShareGroupOffsetsSpec());
        var offset = admin.listShareGroupOffsets(spec).partitionsToOffsetInfo("explicit").get().get(partition);
        System.out.println("altered " + offset.startOffset() + " lag " + offset.lag().get());
        admin.deleteShareGroupOffsets("explicit", Set.of(TOPIC)).all().get();
        admin.deleteShareGroups(List.of("implicit", "explicit")).all().get();
        System.out.println("left " + admin.listGroups(options).all().get().size());
    }
}
