package main

import (
	"errors"
	"fmt"

	"compatibility/steps"

	"github.com/Shopify/sarama"
)

func administration() []steps.Step {
	return []steps.Step{
		{Name: "describe the cluster", Do: describeCluster},
		{Name: "describe a topic", Do: describeTopic},
		{Name: "describe configs", Do: describeConfigs},
		{Name: "alter a config", Do: alterConfig},
		{Name: "create partitions", Do: createPartitions},
		{Name: "list groups", Do: listGroups},
		{Name: "list a group's offsets", Do: groupOffsets},
		{Name: "delete a group", Do: deleteGroup},
		{Name: "delete a topic", Do: deleteTopic},
	}
}

func create(topic string, partitions int32) error {
	err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
	return steps.First(err, steps.Until(func() bool { return partitionCount(topic) == int(partitions) }, "the topic"))
}

func partitionCount(topic string) int {
	found, err := admin.DescribeTopics([]string{topic})
	if err != nil || len(found) != 1 {
		return 0
	}
	return len(found[0].Partitions)
}

func createTopic() error {
	if err := create(steps.Topic, steps.Partitions); err != nil {
		return err
	}
	again := create(steps.Topic, steps.Partitions)
	problem := &sarama.TopicError{}
	return steps.Same(errors.As(again, &problem) && problem.Err == sarama.ErrTopicAlreadyExists, true,
		fmt.Sprintf("refusal of a second creation, %v", again))
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
	found, err := admin.ListTopics()
	return steps.First(err, steps.Same(found[steps.Topic].NumPartitions, int32(steps.Partitions), "partitions"))
}

func config(name string) (string, error) {
	found, err := admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.TopicResource, Name: steps.Topic, ConfigNames: []string{name}})
	if err != nil || len(found) != 1 {
		return "", steps.First(err, steps.Same(len(found), 1, "configs"))
	}
	return found[0].Value, nil
}

func describeConfigs() error {
	policy, err := config("cleanup.policy")
	return steps.First(err, steps.Same(policy, "delete", "cleanup.policy"))
}

func alterConfig() error {
	value := "12345678"
	if err := admin.AlterConfig(sarama.TopicResource, steps.Topic, map[string]*string{"retention.ms": &value}, false); err != nil {
		return err
	}
	return steps.Until(func() bool {
		found, err := config("retention.ms")
		return err == nil && found == value
	}, "the new value")
}

func createPartitions() error {
	topic := steps.Prefix + "-more"
	return steps.First(create(topic, 1), admin.CreatePartitions(topic, 4, nil, false),
		steps.Until(func() bool { return partitionCount(topic) == 4 }, "4 partitions"))
}

func listGroups() error {
	found, err := admin.ListConsumerGroups()
	return steps.First(err, steps.Same(found[steps.Group], "consumer", "protocol type of the group"))
}

func committed(group, topic string, offset int64) bool {
	found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}})
	if err != nil {
		return false
	}
	for partition := int32(0); partition < steps.Partitions; partition++ {
		if block := found.GetBlock(topic, partition); block == nil || block.Offset != offset {
			return false
		}
	}
	return true
}

func groupOffsets() error {
	return steps.Same(committed(steps.Group, steps.Topic, 11), true, "offsets are 11")
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
