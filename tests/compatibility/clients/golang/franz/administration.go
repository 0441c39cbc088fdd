package main

import (
	"compatibility/steps"

	"github.com/twmb/franz-go/pkg/kadm"
)

func administration() []steps.Step {
	return []steps.Step{
		{Name: "describe the cluster", Do: describeCluster},
		{Name: "describe a topic", Do: describeTopic},
		{Name: "describe configs", Do: describeConfigs},
		{Name: "alter a config", Do: alterConfig},
		{Name: "create partitions", Do: createPartitions},
		{Name: "list offsets", Do: listOffsets},
		{Name: "delete records", Do: deleteRecords},
		{Name: "list groups", Do: listGroups},
		{Name: "describe a group", Do: describeGroup},
		{Name: "list a group's offsets", Do: groupOffsets},
		{Name: "alter a group's offsets", Do: alterGroupOffsets},
		{Name: "delete a group's offsets", Do: deleteGroupOffsets},
		{Name: "delete a group", Do: deleteGroup},
		{Name: "delete a topic", Do: deleteTopic},
	}
}

func describeCluster() error {
	found, err := admin.BrokerMetadata(background)
	if err != nil {
		return err
	}
	return steps.First(
		steps.Same(len(found.Brokers), 1, "brokers"),
		steps.Same(found.Brokers[0].NodeID, found.Controller, "controller"),
		steps.Same(found.Cluster != "", true, "a cluster id"),
	)
}

func describeTopic() error {
	found, err := admin.ListTopics(background, steps.Topic)
	if err != nil {
		return err
	}
	parts := found[steps.Topic].Partitions
	return steps.First(
		steps.Same(parts.Numbers(), []int32{0, 1, 2}, "partitions"),
		steps.Same(len(parts[0].ISR), 1, "replicas in sync"),
	)
}

func configs(found kadm.ResourceConfigs, err error) (map[string]string, error) {
	all := map[string]string{}
	for _, each := range found {
		err = steps.First(err, each.Err)
		for _, config := range each.Configs {
			all[config.Key] = config.MaybeValue()
		}
	}
	return all, err
}

func describeConfigs() error {
	ofTopic, err1 := configs(admin.DescribeTopicConfigs(background, steps.Topic))
	cluster, err2 := admin.BrokerMetadata(background)
	ofBroker, err3 := configs(admin.DescribeBrokerConfigs(background, cluster.Controller))
	return steps.First(err1, err2, err3,
		steps.Same(ofTopic["cleanup.policy"], "delete", "cleanup.policy"),
		steps.Same(ofBroker["num.partitions"], "1", "num.partitions"))
}

func alterConfig() error {
	value := "12345678"
	answers, err := admin.AlterTopicConfigs(background, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, steps.Topic)
	if err != nil || answers[0].Err != nil {
		return steps.First(err, answers[0].Err)
	}
	return steps.Until(func() bool {
		found, err := configs(admin.DescribeTopicConfigs(background, steps.Topic))
		return err == nil && found["retention.ms"] == value
	}, "the new value")
}

func createPartitions() error {
	topic := steps.Prefix + "-more"
	if err := create(topic, 1, nil); err != nil {
		return err
	}
	answers, err := admin.UpdatePartitions(background, 4, topic)
	if err := steps.First(err, answers.Error()); err != nil {
		return err
	}
	return steps.Until(func() bool {
		found, err := admin.ListTopics(background, topic)
		return err == nil && len(found[topic].Partitions) == 4
	}, "4 partitions")
}

func listOffsets() error {
	topic := steps.Prefix + "-none"
	start, err1 := admin.ListStartOffsets(background, topic)
	end, err2 := admin.ListEndOffsets(background, topic)
	newest, err3 := admin.ListMaxTimestampOffsets(background, topic)
	if err := steps.First(err1, err2, err3); err != nil {
		return err
	}
	found := []int64{start[topic][0].Offset, end[topic][1].Offset, newest[topic][2].Offset}
	return steps.Same(found, []int64{0, 10, 9}, "offsets")
}

func deleteRecords() error {
	topic := steps.Prefix + "-gzip"
	wanted := kadm.Offsets{}
	wanted.AddOffset(topic, 0, 4, -1)
	answers, err := admin.DeleteRecords(background, wanted)
	if err := steps.First(err, answers.Error()); err != nil {
		return err
	}
	start, err := admin.ListStartOffsets(background, topic)
	return steps.First(err, steps.Same(start[topic][0].Offset, int64(4), "first offset"))
}

func listGroups() error {
	found, err := admin.ListGroups(background)
	return steps.First(err, steps.Same(found[steps.Group].ProtocolType, "consumer", "protocol type of the group"))
}

func describeGroup() error {
	group := steps.Prefix + "-described"
	reader := join(group, steps.Topic)
	defer reader.Close()
	if err := steps.Until(func() bool { return len(reader.owned()) == 3 }, "an assignment"); err != nil {
		return err
	}
	found, err := admin.DescribeGroups(background, group)
	return steps.First(err, found.Error(),
		steps.Same(found[group].State, "Stable", "state"),
		steps.Same(len(found[group].Members), 1, "members"))
}

func groupOffsets() error {
	found, err := offsets(steps.Group, steps.Topic)
	return steps.First(err, steps.Same(found, []int64{11, 11, 11}, "offsets"))
}

func alterGroupOffsets() error {
	wanted := kadm.Offsets{}
	wanted.AddOffset(steps.Topic, 1, 7, -1)
	answers, err := admin.CommitOffsets(background, steps.Group, wanted)
	if err := steps.First(err, answers.Error()); err != nil {
		return err
	}
	found, err := offsets(steps.Group, steps.Topic)
	return steps.First(err, steps.Same(found, []int64{11, 7, 11}, "offsets"))
}

func deleteGroupOffsets() error {
	wanted := kadm.TopicsSet{}
	wanted.Add(steps.Topic, 2)
	answers, err := admin.DeleteOffsets(background, steps.Group, wanted)
	if err := steps.First(err, answers.Error()); err != nil {
		return err
	}
	found, err := offsets(steps.Group, steps.Topic)
	return steps.First(err, steps.Same(found, []int64{11, 7}, "offsets"))
}

func deleteGroup() error {
	answers, err := admin.DeleteGroups(background, steps.Group)
	if err := steps.First(err, answers.Error()); err != nil {
		return err
	}
	found, err := admin.ListGroups(background)
	return steps.First(err, steps.Same(found.Groups() == nil || found[steps.Group].Group == "", true, "gone from the list"))
}

func deleteTopic() error {
	answers, err := admin.DeleteTopics(background, steps.Topic)
	if err := steps.First(err, answers.Error()); err != nil {
		return err
	}
	return steps.Until(func() bool {
		found, err := admin.ListTopics(background)
		return err == nil && !found.Has(steps.Topic)
	}, "the topic gone")
}
