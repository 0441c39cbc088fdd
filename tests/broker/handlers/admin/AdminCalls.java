import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Makes every call of Kafka's AdminClient and prints what came of it: the call, a tab, and a value or the class
 * of an error. What differs between any two clusters (ids, ports, times, sizes) is left out of the values.
 * Arguments: bootstrap servers, the id of the broker.
 */
public final class AdminCalls {
    private interface Call { Object run() throws Exception; }

    private static final String TOPIC = "admin-calls", GROUP = "admin-calls-group";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0), NONE = new TopicPartition("nowhere", 0);
    private static Admin admin;
    private static int broker;

    public static void main(String[] arguments) throws Exception {
        broker = Integer.parseInt(arguments[1]);
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "default.api.timeout.ms", 20000,
            "request.timeout.ms", 10000);
        try (Admin opened = Admin.create(settings)) {
            admin = opened;
            System.out.println("methods\t" + Arrays.stream(Admin.class.getMethods())
                .map(java.lang.reflect.Method::getName).distinct().collect(Collectors.joining(" ")));
            topics();
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                for (int number = 0; number < 10; number++) {
                    producer.send(new ProducerRecord<>(TOPIC, 0, 1000L + number, null, "v" + number)).get();
                }
            }
            offsets();
            groups();
            configs();
            quotas();
            cluster();
            reassignments();
            transactions();
            security();
            print("deleteTopics", () -> admin.deleteTopics(Set.of(TOPIC)).all().get());
        }
    }

    private static void topics() {
        print("createTopics", () -> {
            // The records are of 1970: without this, retention may delete them between two calls.
            NewTopic kept = new NewTopic(TOPIC, 2, (short) 1).configs(Map.of("retention.ms", "-1"));
            var created = admin.createTopics(List.of(kept));
            return created.numPartitions(TOPIC).get() + " " + created.replicationFactor(TOPIC).get();
        });
        print("createTopics again", () -> admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all().get());
        print("createTopics with 3 replicas", () -> admin.createTopics(List.of(new NewTopic("three", 1, (short) 3))).all().get());
        print("listTopics", () -> admin.listTopics().names().get().contains(TOPIC));
        print("describeTopics", () -> described(admin.describeTopics(List.of(TOPIC),
            new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get().get(TOPIC)));
        print("describeTopics in parts of one", () -> described(admin.describeTopics(List.of(TOPIC),
            new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)).allTopicNames().get().get(TOPIC)));
        print("describeTopics nowhere", () -> admin.describeTopics(List.of("nowhere")).allTopicNames().get());
        print("describeTopics of a wrong name", () -> admin.describeTopics(List.of("a b")).allTopicNames().get());
        print("describeTopics by id", () -> {
            Uuid id = admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).topicId();
            return described(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id));
        });
        print("createPartitions", () -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3))).all().get());
        print("createPartitions fewer", () -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(1))).all().get());
        print("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(FIRST)).all().get());
        print("electLeaders of all", () -> admin.electLeaders(ElectionType.UNCLEAN, null).all().get());
        print("electLeaders nowhere", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(NONE)).all().get());
    }

    private static String described(TopicDescription topic) {
        return topic.name() + " " + topic.isInternal() + " " + sorted(topic.authorizedOperations()) + " "
            + topic.partitions().stream().map(one -> one.partition() + ":" + one.leader().id() + ":" + ids(one.replicas())
                + ":" + ids(one.isr()) + ":" + ids(one.elr()) + ":" + ids(one.lastKnownElr())).toList();
    }

    private static Object ids(List<Node> nodes) {
        return nodes == null ? null : nodes.stream().map(Node::id).toList();
    }

    private static void offsets() {
        print("listOffsets latest", () -> listed(OffsetSpec.latest()));
        print("listOffsets earliest", () -> listed(OffsetSpec.earliest()));
        print("listOffsets max timestamp", () -> listed(OffsetSpec.maxTimestamp()));
        print("listOffsets by time", () -> listed(OffsetSpec.forTimestamp(1005)));
        print("listOffsets earliest local", () -> listed(OffsetSpec.earliestLocal()));
        print("listOffsets latest tiered", () -> listed(OffsetSpec.latestTiered()));
        print("listOffsets nowhere", () -> admin.listOffsets(Map.of(NONE, OffsetSpec.latest()),
            new ListOffsetsOptions().timeoutMs(1000)).all().get());
        print("deleteRecords", () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(3)))
            .lowWatermarks().get(FIRST).get().lowWatermark());
        print("deleteRecords beyond", () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(99))).all().get());
        print("describeProducers", () -> admin.describeProducers(Set.of(FIRST)).all().get().get(FIRST).activeProducers().size());
        print("describeLogDirs", () -> admin.describeLogDirs(Set.of(broker)).allDescriptions().get().get(broker).values()
            .stream().map(one -> one.error() + " " + one.replicaInfos().containsKey(FIRST)).toList());
        print("describeLogDirs of another", () -> admin.describeLogDirs(Set.of(77),
            new DescribeLogDirsOptions().timeoutMs(1000)).allDescriptions().get());
        TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, broker);
        print("describeReplicaLogDirs", () -> {
            var found = admin.describeReplicaLogDirs(Set.of(replica)).all().get().get(replica);
            return (found.getCurrentReplicaLogDir() != null) + " " + found.getFutureReplicaLogDir();
        });
        print("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all().get());
        print("alterReplicaLogDirs to where it is", () -> {
            var found = admin.describeReplicaLogDirs(Set.of(replica)).all().get().get(replica);
            return admin.alterReplicaLogDirs(Map.of(replica, found.getCurrentReplicaLogDir())).all().get();
        });
    }

    private static Object listed(OffsetSpec spec) throws Exception {
        var found = admin.listOffsets(Map.of(FIRST, spec)).all().get().get(FIRST);
        return found.offset() + " " + found.timestamp() + " " + found.leaderEpoch();
    }

    private static void groups() {
        print("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(GROUP,
            Map.of(FIRST, new OffsetAndMetadata(5, Optional.empty(), "m"))).all().get());
        print("alterConsumerGroupOffsets nowhere", () -> admin.alterConsumerGroupOffsets(GROUP,
            Map.of(NONE, new OffsetAndMetadata(5))).all().get());
        print("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(GROUP)
            .partitionsToOffsetAndMetadata().get().get(FIRST).offset());
        print("listConsumerGroupOffsets of nobody", () -> admin.listConsumerGroupOffsets("nobody")
            .partitionsToOffsetAndMetadata().get());
        print("listGroups", () -> admin.listGroups().all().get().stream().filter(one -> one.groupId().equals(GROUP))
            .map(one -> one.type() + " " + one.protocol() + " " + one.groupState()).toList());
        print("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream()
            .filter(one -> one.groupId().equals(GROUP)).map(one -> one.groupId() + " " + one.groupState()).toList());
        print("describeConsumerGroups", () -> {
            var found = admin.describeConsumerGroups(List.of(GROUP),
                new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all().get().get(GROUP);
            return found.groupState() + " " + found.type() + " " + found.members() + " " + sorted(found.authorizedOperations());
        });
        print("describeConsumerGroups of nobody", () -> admin.describeConsumerGroups(List.of("nobody")).all().get());
        print("describeClassicGroups", () -> {
            var found = admin.describeClassicGroups(List.of(GROUP)).all().get().get(GROUP);
            return found.state() + " " + found.protocol() + " " + found.members();
        });
        print("describeClassicGroups of nobody", () -> admin.describeClassicGroups(List.of("nobody")).all().get());
        print("describeShareGroups of nobody", () -> admin.describeShareGroups(List.of("nobody")).all().get());
        print("describeShareGroups of a classic group", () -> admin.describeShareGroups(List.of(GROUP)).all().get());
        print("listShareGroupOffsets of nobody", () -> admin.listShareGroupOffsets(
            Map.of("nobody", new ListShareGroupOffsetsSpec())).all().get());
        print("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("admin-calls-share", Map.of(FIRST, 4L)).all().get());
        print("deleteShareGroupOffsets of nobody", () -> admin.deleteShareGroupOffsets("nobody", Set.of(TOPIC)).all().get());
        print("deleteShareGroups of nobody", () -> admin.deleteShareGroups(List.of("nobody")).all().get());
        print("describeStreamsGroups of nobody", () -> admin.describeStreamsGroups(List.of("nobody")).all().get());
        print("listStreamsGroupOffsets of nobody", () -> admin.listStreamsGroupOffsets(
            Map.of("nobody", new ListStreamsGroupOffsetsSpec())).partitionsToOffsetAndMetadata("nobody").get());
        print("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets("admin-calls-streams",
            Map.of(FIRST, new OffsetAndMetadata(4))).all().get());
        print("deleteStreamsGroupOffsets of nobody", () -> admin.deleteStreamsGroupOffsets("nobody", Set.of(FIRST)).all().get());
        print("deleteStreamsGroups of nobody", () -> admin.deleteStreamsGroups(List.of("nobody")).all().get());
        print("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(GROUP,
            new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")))).all().get());
        print("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(GROUP, Set.of(FIRST)).all().get());
        print("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(GROUP)).all().get());
        print("deleteConsumerGroups of nobody", () -> admin.deleteConsumerGroups(List.of("nobody")).all().get());
    }

    private static void configs() {
        for (ConfigResource.Type type : ConfigResource.Type.values()) {
            String name = type == ConfigResource.Type.TOPIC ? TOPIC
                : type == ConfigResource.Type.BROKER || type == ConfigResource.Type.BROKER_LOGGER ? "" + broker : "some-name";
            ConfigResource resource = new ConfigResource(type, name);
            print("describeConfigs " + type, () -> shown(type, described(resource)));
            print("describeConfigs " + type + " without a name", () -> {
                ConfigResource nameless = new ConfigResource(type, "");
                return shown(type, described(nameless));
            });
        }
        print("describeConfigs nowhere", () -> described(new ConfigResource(ConfigResource.Type.TOPIC, "nowhere")));
        change(ConfigResource.Type.TOPIC, TOPIC, "retention.ms", "1000");
        change(ConfigResource.Type.TOPIC, TOPIC, "retention.ms", "soon");
        change(ConfigResource.Type.TOPIC, TOPIC, "no.such.setting", "1");
        change(ConfigResource.Type.TOPIC, "nowhere", "retention.ms", "1000");
        change(ConfigResource.Type.GROUP, "some-group", "consumer.session.timeout.ms", "50000");
        change(ConfigResource.Type.GROUP, "some-group", "consumer.heartbeat.interval.ms", "6000");
        change(ConfigResource.Type.GROUP, "some-group", "consumer.heartbeat.interval.ms", "1");
        change(ConfigResource.Type.GROUP, "some-group", "consumer.heartbeat.interval.ms", "soon");
        change(ConfigResource.Type.GROUP, "some-group", "consumer.session.timeout.ms", "1");
        change(ConfigResource.Type.GROUP, "some-group", "share.auto.offset.reset", "earliest");
        change(ConfigResource.Type.GROUP, "some-group", "share.auto.offset.reset", "elsewhere");
        change(ConfigResource.Type.GROUP, "some-group", "share.record.lock.duration.ms", "20000");
        change(ConfigResource.Type.GROUP, "some-group", "share.record.lock.duration.ms", "1");
        change(ConfigResource.Type.GROUP, "some-group", "no.such.setting", "1");
        change(ConfigResource.Type.GROUP, "", "consumer.session.timeout.ms", "50000");
        change(ConfigResource.Type.CLIENT_METRICS, "some-metrics", "interval.ms", "1000");
        change(ConfigResource.Type.CLIENT_METRICS, "some-metrics", "metrics", "org.apache.kafka.consumer.");
        change(ConfigResource.Type.CLIENT_METRICS, "some-metrics", "match", "client_id=abc.*");
        change(ConfigResource.Type.CLIENT_METRICS, "some-metrics", "match", "nothing");
        change(ConfigResource.Type.CLIENT_METRICS, "some-metrics", "interval.ms", "1");
        change(ConfigResource.Type.CLIENT_METRICS, "some-metrics", "no.such.setting", "1");
        change(ConfigResource.Type.CLIENT_METRICS, "", "interval.ms", "1000");
        change(ConfigResource.Type.BROKER, "" + broker, "log.cleaner.threads", "2");
        change(ConfigResource.Type.BROKER, "" + broker, "broker.rack", "r");
        change(ConfigResource.Type.BROKER, "", "message.max.bytes", "2000000");
        change(ConfigResource.Type.BROKER_LOGGER, "" + broker, "org.apache.kafka", "DEBUG");
        change(ConfigResource.Type.BROKER_LOGGER, "" + broker, "org.apache.kafka", "LOUD");
        change(ConfigResource.Type.BROKER_LOGGER, "", "org.apache.kafka", "DEBUG");
        print("group settings", () -> described(new ConfigResource(ConfigResource.Type.GROUP, "some-group")).entries().stream()
            .filter(one -> one.source() == ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG)
            .map(one -> one.name() + "=" + one.value() + " " + one.type()).sorted().toList());
        print("metrics settings", () -> described(new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "some-metrics")).entries()
            .stream().map(one -> one.name() + "=" + one.value() + " " + one.source()).sorted().toList());
        for (ConfigResource.Type type : ConfigResource.Type.values()) {
            print("listConfigResources " + type, () -> admin.listConfigResources(Set.of(type), new ListConfigResourcesOptions())
                .all().get().stream().map(ConfigResource::name).filter(name -> !name.startsWith("__"))
                .filter(name -> type != ConfigResource.Type.TOPIC || name.equals(TOPIC)).sorted().toList());
        }
        print("listClientMetricsResources", () -> admin.listClientMetricsResources().all().get().stream()
            .map(ClientMetricsResourceListing::name).sorted().toList());
        for (String name : List.of("interval.ms", "metrics", "match")) {
            remove(ConfigResource.Type.CLIENT_METRICS, "some-metrics", name);
        }
        for (String name : List.of("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.auto.offset.reset",
                "share.record.lock.duration.ms")) {
            remove(ConfigResource.Type.GROUP, "some-group", name);
        }
        remove(ConfigResource.Type.TOPIC, TOPIC, "retention.ms");
        remove(ConfigResource.Type.BROKER, "" + broker, "log.cleaner.threads");
        remove(ConfigResource.Type.BROKER, "", "message.max.bytes");
        remove(ConfigResource.Type.BROKER_LOGGER, "" + broker, "org.apache.kafka");
        print("listConfigResources after", () -> admin.listConfigResources(
            Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get());
    }

    private static Config described(ConfigResource resource) throws Exception {
        return admin.describeConfigs(Set.of(resource)).all().get().get(resource);
    }

    /** Names and defaults of small tables; of the large ones their own tests say more. */
    private static Object shown(ConfigResource.Type type, Config config) {
        return type == ConfigResource.Type.GROUP || type == ConfigResource.Type.CLIENT_METRICS
            ? config.entries().stream().map(one -> one.name() + "=" + one.value() + " " + one.source() + " " + one.type())
                .sorted().toList()
            : config.entries().isEmpty() ? "nothing" : "something";
    }

    private static void change(ConfigResource.Type type, String name, String setting, String value) {
        alter("set", AlterConfigOp.OpType.SET, type, name, setting, value);
    }

    private static void remove(ConfigResource.Type type, String name, String setting) {
        alter("remove", AlterConfigOp.OpType.DELETE, type, name, setting, "");
    }

    private static void alter(
            String word, AlterConfigOp.OpType operation, ConfigResource.Type type, String name, String setting, String value) {
        var change = new AlterConfigOp(new ConfigEntry(setting, value), operation);
        String shown = name.equals("" + broker) ? "BROKER" : name;
        print(word + " " + type + " " + shown + " " + setting + "=" + value, () -> {
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(change))).all().get();
            return "done";
        });
    }

    private static void quotas() {
        ClientQuotaEntity both = new ClientQuotaEntity(Map.of("user", "u", "client-id", "c"));
        Map<String, String> anybody = new TreeMap<>();
        anybody.put("user", null);
        ClientQuotaEntity address = new ClientQuotaEntity(Map.of("ip", "127.0.0.1"));
        quota("of a client", both, "producer_byte_rate", 1000.0);
        quota("of a client, more", both, "request_percentage", 12.5);
        quota("of any user", new ClientQuotaEntity(anybody), "consumer_byte_rate", 2000.0);
        quota("of an address", address, "connection_creation_rate", 7.0);
        quota("with a wrong name", both, "no_such_rate", 1.0);
        quota("below zero", both, "producer_byte_rate", -1.0);
        quota("with a fraction", both, "producer_byte_rate", 1.5);
        quota("of an address that is none", new ClientQuotaEntity(Map.of("ip", "no address")), "connection_creation_rate", 7.0);
        quota("of an address with a user's name", address, "producer_byte_rate", 7.0);
        quota("of a wrong kind", new ClientQuotaEntity(Map.of("group", "g")), "producer_byte_rate", 7.0);
        quota("of an address and a user", new ClientQuotaEntity(Map.of("ip", "127.0.0.1", "user", "u")), "producer_byte_rate", 7.0);
        print("describeClientQuotas", () -> quotas(ClientQuotaFilter.all()));
        print("describeClientQuotas of a user", () -> quotas(ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntity("user", "u")))));
        print("describeClientQuotas of a user alone", () -> quotas(ClientQuotaFilter.containsOnly(
            List.of(ClientQuotaFilterComponent.ofEntity("user", "u")))));
        print("describeClientQuotas of any user", () -> quotas(ClientQuotaFilter.containsOnly(
            List.of(ClientQuotaFilterComponent.ofDefaultEntity("user")))));
        print("describeClientQuotas of all users", () -> quotas(ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntityType("user")))));
        print("describeClientQuotas of a wrong kind", () -> quotas(ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntityType("group")))));
        print("describeClientQuotas of addresses and users", () -> quotas(ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntityType("ip"), ClientQuotaFilterComponent.ofEntityType("user")))));
        quota("of a client, removed", both, "producer_byte_rate", null);
        quota("of a client, removed too", both, "request_percentage", null);
        quota("of any user, removed", new ClientQuotaEntity(anybody), "consumer_byte_rate", null);
        quota("of an address, removed", address, "connection_creation_rate", null);
        print("describeClientQuotas after", () -> quotas(ClientQuotaFilter.all()));
    }

    private static void quota(String label, ClientQuotaEntity entity, String name, Double value) {
        print("alterClientQuotas " + label, () -> admin.alterClientQuotas(
            List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(name, value))))).all().get());
    }

    private static Object quotas(ClientQuotaFilter filter) throws Exception {
        return admin.describeClientQuotas(filter).entities().get().entrySet().stream()
            .map(one -> new TreeMap<>(one.getKey().entries()) + "=" + new TreeMap<>(one.getValue())).sorted().toList();
    }

    private static void cluster() {
        print("describeCluster", () -> {
            var found = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            return ids(new ArrayList<>(found.nodes().get())) + " " + found.controller().get().id() + " "
                + sorted(found.authorizedOperations().get());
        });
        print("describeFeatures", () -> {
            var found = admin.describeFeatures().featureMetadata().get();
            return new TreeMap<>(found.finalizedFeatures()) + " " + new TreeMap<>(found.supportedFeatures());
        });
        feature("upgrade transaction.version to what it is", "transaction.version", 2, FeatureUpdate.UpgradeType.UPGRADE);
        feature("upgrade transaction.version too far", "transaction.version", 99, FeatureUpdate.UpgradeType.UPGRADE);
        feature("lower transaction.version without saying so", "transaction.version", 1, FeatureUpdate.UpgradeType.UPGRADE);
        feature("upgrade a feature that nobody knows", "no.such.feature", 1, FeatureUpdate.UpgradeType.UPGRADE);
        print("describeMetadataQuorum", () -> {
            var found = admin.describeMetadataQuorum().quorumInfo().get();
            return found.leaderId() + " " + found.voters().stream().map(one -> one.replicaId()).toList() + " "
                + found.observers().stream().map(one -> one.replicaId()).toList();
        });
        print("unregisterBroker", () -> admin.unregisterBroker(77).all().get());
        print("unregisterController", () -> admin.unregisterController(77).all().get());
        print("addRaftVoter", () -> admin.addRaftVoter(77, new Uuid(1, 2),
            Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1))).all().get());
        print("removeRaftVoter", () -> admin.removeRaftVoter(77, new Uuid(1, 2)).all().get());
        print("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(5)));
        print("metrics", () -> admin.metrics().isEmpty());
    }

    private static void feature(String label, String name, int level, FeatureUpdate.UpgradeType type) {
        print("updateFeatures: " + label, () -> admin.updateFeatures(
            Map.of(name, new FeatureUpdate((short) level, type)), new UpdateFeaturesOptions().validateOnly(true)).all().get());
    }

    private static void reassignments() {
        reassign("to itself", FIRST, List.of(broker));
        reassign("to a broker that is not there", FIRST, List.of(77));
        reassign("to nobody", FIRST, List.of());
        reassign("to one broker twice", FIRST, List.of(broker, broker));
        reassign("of nowhere", NONE, List.of(broker));
        print("alterPartitionReassignments cancelled", () ->
            admin.alterPartitionReassignments(Map.of(FIRST, Optional.empty())).all().get());
        print("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
        print("listPartitionReassignments of one", () -> admin.listPartitionReassignments(Set.of(FIRST)).reassignments().get());
        print("listPartitionReassignments nowhere", () -> admin.listPartitionReassignments(Set.of(NONE)).reassignments().get());
    }

    private static void reassign(String label, TopicPartition partition, List<Integer> replicas) {
        print("alterPartitionReassignments " + label, () -> admin.alterPartitionReassignments(
            Map.of(partition, Optional.of(new NewPartitionReassignment(replicas)))).all().get());
    }

    private static void transactions() {
        print("listTransactions", () -> admin.listTransactions().all().get());
        print("describeTransactions", () -> admin.describeTransactions(List.of("nobody")).all().get());
        print("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(FIRST, 12345, (short) 0, 0)).all().get());
        print("fenceProducers", () -> {
            var fenced = admin.fenceProducers(List.of("admin-calls-id"));
            fenced.all().get();
            return fenced.epochId("admin-calls-id").get();
        });
        print("forceTerminateTransaction", () -> admin.forceTerminateTransaction("nobody").result().get());
    }

    private static void security() {
        print("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        print("createAcls", () -> admin.createAcls(List.of(new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
            new AccessControlEntry("User:u", "*", AclOperation.READ, AclPermissionType.ALLOW)))).all().get());
        print("deleteAcls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
        print("createDelegationToken", () -> admin.createDelegationToken().delegationToken().get());
        print("renewDelegationToken", () -> admin.renewDelegationToken(new byte[] {1}).expiryTimestamp().get());
        print("expireDelegationToken", () -> admin.expireDelegationToken(new byte[] {1}).expiryTimestamp().get());
        print("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens().get());
        print("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("u",
            new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get());
        print("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of("u")).all().get().get("u"));
        print("alterUserScramCredentials, deleted", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("u", ScramMechanism.SCRAM_SHA_256))).all().get());
        print("describeUserScramCredentials after", () -> admin.describeUserScramCredentials(List.of("u")).all().get());
    }

    private static Object sorted(Collection<?> values) {
        return values == null ? null : values.stream().map(Objects::toString).collect(Collectors.toCollection(TreeSet::new));
    }

    private static void print(String name, Call call) {
        String told;
        try {
            told = String.valueOf(call.run());
        } catch (ExecutionException error) {
            told = error.getCause().getClass().getSimpleName();
            System.err.println(name + ": " + error.getCause().getMessage());
        } catch (Exception error) {
            told = error.getClass().getSimpleName();
            System.err.println(name + ": " + error.getMessage());
        }
        System.out.println(name + "\t" + told);
    }
}
