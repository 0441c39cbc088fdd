package main

import (
	"compatibility/steps"

	"github.com/IBM/sarama"
)

func administration() []steps.Step {
	return []steps.Step{
		{Name: "describe the cluster", Do: describeCluster},
		{Name: "describe a topic", Do: describeTopic},
		{Name: "describe configs", Do: describeConfigs},
		{Name: "alter a config", Do: alterConfig},
		{Name: "create partitions", Do: createPartitions},
		{Name: "delete records", Do: deleteRecords},
		{Name: "list groups", Do: listGroups},
		{Name: "describe a group", Do: describeGroup},
		{Name: "list a group's offsets", Do: groupOffsets},
		{Name: "delete a group's offsets", Do: deleteGroupOffsets},
		{Name: "delete a group", Do: deleteGroup},
		{Name: "delete a topic", Do: deleteTopic},
	}
}

func describeCluster() error {
	brokers, controller, err := admin.DescribeCluster()
	if err != nil {
		return err
	}
	return steps.First(
		steps.Same(len(brokers), 1, "brokers"),
		steps.Same(brokers[0].Addr(), steps.Bootstrap, "address"),
		steps.Same(brokers[0].ID(), controller, "controller"),
	)
}

func describeTopic() error {
	found, err := admin.DescribeTopics([]string{steps.Topic})
	if err != nil {
		return err
	}
	return steps.First(
		steps.Same(len(found[0].Partitions), steps.Partitions, "partitions"),
		steps.Same(len(found[0].Partitions[0].Isr), 1, "replicas in sync"),
	)
}

func config(kind sarama.ConfigResourceType, resource, name string) (string, error) {
	found, err := admin.DescribeConfig(sarama.ConfigResource{Type: kind, Name: resource, ConfigNames: []string{name}})
	if err != nil || len(found) != 1 {
		return "", steps.First(err, steps.Same(len(found), 1, "configs"))
	}
	return found[0].Value, nil
}

func describeConfigs() error {
	policy, err1 := config(sarama.TopicResource, steps.Topic, "cleanup.policy")
	_, controller, err2 := admin.DescribeCluster()
	number, err3 := config(sarama.BrokerResource, string(rune('0'+controller)), "num.partitions")
	return steps.First(err1, err2, err3, steps.Same([]string{policy, number}, []string{"delete", "1"}, "values"))
}

func alterConfig() error {
	value := "12345678"
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, steps.Topic, change, false); err != nil {
		return err
	}
	return steps.Until(func() bool {
		found, err := config(sarama.TopicResource, steps.Topic, "retention.ms")
		return err == nil && found == value
	}, "the new value")
}

func createPartitions() error {
	topic := steps.Prefix + "-more"
	if err := steps.First(create(topic, 1, nil), admin.CreatePartitions(topic, 4, nil, false)); err != nil {
		return err
	}
	return steps.Until(func() bool {
		found, err := admin.DescribeTopics([]string{topic})
		return err == nil && len(found[0].Partitions) == 4
	}, "4 partitions")
}

func deleteRecords() error {
	topic := steps.Prefix + "-gzip"
	if err := admin.DeleteRecords(topic, map[int32]int64{0: 4}); err != nil {
		return err
	}
	client, err := sarama.NewClient([]string{steps.Bootstrap}, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	oldest, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
	return steps.First(err, steps.Same(oldest, int64(4), "first offset"))
}

func listGroups() error {
	found, err := admin.ListConsumerGroups()
	return steps.First(err, steps.Same(found[steps.Group], "consumer", "protocol type of the group"))
}

func describeGroup() error {
	group := steps.Prefix + "-described"
	reader, err := join(group, steps.Topic)
	if err != nil {
		return err
	}
	defer reader.leave()
	if err := steps.Until(func() bool { return len(reader.owned()) == 3 }, "an assignment"); err != nil {
		return err
	}
	found, err := admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return err
	}
	return steps.First(
		steps.Same(found[0].State, "Stable", "state"),
		steps.Same(len(found[0].Members), 1, "members"),
	)
}

func groupOffsets() error {
	found, err := offsets(steps.Group, steps.Topic)
	return steps.First(err, steps.Same(found, []int64{11, 11, 11}, "offsets"))
}

func deleteGroupOffsets() error {
	if err := admin.DeleteConsumerGroupOffset(steps.Group, steps.Topic, 2); err != nil {
		return err
	}
	found, err := offsets(steps.Group, steps.Topic)
	return steps.First(err, steps.Same(found, []int64{11, 11, -1}, "offsets"))
}

func deleteGroup() error {
	if err := admin.DeleteConsumerGroup(steps.Group); err != nil {
		return err
	}
	found, err := admin.ListConsumerGroups()
	_, isListed := found[steps.Group]
	return steps.First(err, steps.Same(isListed, false, "still listed"))
}

func deleteTopic() error {
	if err := admin.DeleteTopic(steps.Topic); err != nil {
		return err
	}
	return steps.Until(func() bool {
		found, err := admin.ListTopics()
		_, isListed := found[steps.Topic]
		return err == nil && !isListed
	}, "the topic gone")
}
