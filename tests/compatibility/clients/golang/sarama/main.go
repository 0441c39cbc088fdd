// sarama: every step of the matrix that it has calls for.
package main

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"compatibility/steps"

	"github.com/IBM/sarama"
)

var admin sarama.ClusterAdmin

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Metadata.RefreshFrequency = time.Second
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	return config
}

func send(config *sarama.Config, topic string, rows []steps.Row) error {
	producer, err := sarama.NewSyncProducer([]string{steps.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return sendWith(producer, topic, rows)
}

func sendWith(producer sarama.SyncProducer, topic string, rows []steps.Row) error {
	var messages []*sarama.ProducerMessage
	for _, row := range rows {
		message := &sarama.ProducerMessage{Topic: topic, Partition: row.Partition, Timestamp: time.UnixMilli(row.TimeMs)}
		if row.Key != steps.Nil {
			message.Key = sarama.StringEncoder(row.Key)
		}
		if row.Value != steps.Nil {
			message.Value = sarama.StringEncoder(row.Value)
		}
		for _, pair := range row.HeaderPairs() {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(pair[0]), Value: []byte(pair[1])})
		}
		messages = append(messages, message)
	}
	err := producer.SendMessages(messages)
	if several := (sarama.ProducerErrors{}); errors.As(err, &several) {
		return several[0].Err
	}
	return err
}

func row(message *sarama.ConsumerMessage) steps.Row {
	headers := ""
	for _, each := range message.Headers {
		headers += string(each.Key) + "=" + string(each.Value) + ";"
	}
	return steps.Row{
		Partition: message.Partition, TimeMs: message.Timestamp.UnixMilli(),
		Key: steps.Text(message.Key), Value: steps.Text(message.Value), HeaderKeyValues: headers,
	}
}

func readAll(topic string, count int) ([]steps.Row, error) {
	consumer, err := sarama.NewConsumer([]string{steps.Bootstrap}, settings())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	all := make(chan *sarama.ConsumerMessage, 1000)
	for partition := int32(0); partition < steps.Partitions; partition++ {
		reader, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		defer reader.AsyncClose()
		go func() {
			for message := range reader.Messages() {
				all <- message
			}
		}()
	}
	return collect(all, count)
}

// place is where a record stands in its partition.
type place struct {
	partition int32
	offset    int64
}

// collect reads so many records. A member whose session ends before it has committed reads on from its last
// commit: what it delivers again is the promise of at least once, and counts once.
func collect(from chan *sarama.ConsumerMessage, count int) ([]steps.Row, error) {
	var rows []steps.Row
	seen := map[place]bool{}
	late := time.After(30 * time.Second)
	for len(rows) < count {
		select {
		case message := <-from:
			if at := (place{message.Partition, message.Offset}); !seen[at] {
				seen[at] = true
				rows = append(rows, row(message))
			}
		case <-late:
			return nil, steps.Same(len(rows), count, "records within 30 s")
		}
	}
	return steps.InOrder(rows), nil
}

// member is a consumer of a group that tells what it owns and passes on what it reads.
type member struct {
	group    sarama.ConsumerGroup
	cancel   context.CancelFunc
	messages chan *sarama.ConsumerMessage
	ended    sync.WaitGroup
	lock     sync.Mutex
	claims   []int32
	session  sarama.ConsumerGroupSession
}

func join(group, topic string) (*member, error) {
	joined, err := sarama.NewConsumerGroup([]string{steps.Bootstrap}, group, settings())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: joined, cancel: cancel, messages: make(chan *sarama.ConsumerMessage, 1000)}
	m.ended.Add(1)
	go func() {
		defer m.ended.Done()
		for ctx.Err() == nil {
			if err := joined.Consume(ctx, []string{topic}, m); err != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m, nil
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session, m.claims = session, nil
	for _, claimed := range session.Claims() {
		m.claims = append([]int32{}, claimed...)
	}
	sort.Slice(m.claims, func(a, b int) bool { return m.claims[a] < m.claims[b] })
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.claims = nil
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(message, "")
			m.messages <- message
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) owned() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.claims
}

func (m *member) commit() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session.Commit()
}

func (m *member) leave() {
	m.cancel()
	m.ended.Wait()
	m.group.Close()
}

func create(topic string, partitions int32, configs map[string]*string) error {
	return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}, false)
}

func createTopic() error {
	if err := create(steps.Topic, steps.Partitions, nil); err != nil {
		return err
	}
	listed := func() bool {
		found, err := admin.ListTopics()
		return err == nil && found[steps.Topic].NumPartitions == steps.Partitions
	}
	again := create(steps.Topic, steps.Partitions, nil)
	return steps.First(
		steps.Until(listed, "the topic in the list"),
		steps.Same(errors.Is(again, sarama.ErrTopicAlreadyExists), true, "refusal of a second creation"),
	)
}

func autoCreation() error {
	topic := steps.Prefix + "-auto"
	if err := send(settings(), topic, []steps.Row{{TimeMs: steps.FirstTimeMs, Key: "k", Value: "v"}}); err != nil {
		return err
	}
	found, err := admin.DescribeTopics([]string{topic})
	return steps.First(err, steps.Same(len(found[0].Partitions), 1, "partitions"))
}

func codec(name string) error {
	topic := steps.Prefix + "-" + name
	config := settings()
	_ = config.Producer.Compression.UnmarshalText([]byte(name))
	return written(topic, config)
}

func written(topic string, config *sarama.Config) error {
	if err := steps.First(create(topic, steps.Partitions, nil), send(config, topic, steps.Sample(30))); err != nil {
		return err
	}
	rows, err := readAll(topic, 30)
	return steps.First(err, steps.Same(rows, steps.InOrder(steps.Sample(30)), "records"))
}

func idempotent() error {
	config := settings()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	return written(steps.Prefix+"-idempotent", config)
}

func tooLarge() error {
	topic, limit, value := steps.Prefix+"-large", "2000", string(make([]byte, 5000))
	if err := create(topic, 1, map[string]*string{"max.message.bytes": &limit}); err != nil {
		return err
	}
	err := send(settings(), topic, []steps.Row{{TimeMs: steps.FirstTimeMs, Key: "k", Value: value}})
	return steps.Same(errors.Is(err, sarama.ErrMessageSizeTooLarge), true, "refused as too large")
}

func offsetsForTimes() error {
	client, err := sarama.NewClient([]string{steps.Bootstrap}, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	topic := steps.Prefix + "-none"
	at, err1 := client.GetOffset(topic, 1, steps.Sample(30)[15].TimeMs)
	oldest, err2 := client.GetOffset(topic, 1, sarama.OffsetOldest)
	newest, err3 := client.GetOffset(topic, 1, sarama.OffsetNewest)
	return steps.First(err1, err2, err3, steps.Same([]int64{at, oldest, newest}, []int64{5, 0, 10}, "offsets"))
}

func offsets(group, topic string) ([]int64, error) {
	found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}})
	if err != nil {
		return nil, err
	}
	var all []int64
	for partition := int32(0); partition < steps.Partitions; partition++ {
		all = append(all, found.GetBlock(topic, partition).Offset)
	}
	return all, nil
}

func groupCommit() error {
	if err := send(settings(), steps.Topic, steps.Sample(30)); err != nil {
		return err
	}
	first, err := join(steps.Group, steps.Topic)
	if err != nil {
		return err
	}
	rows, err := collect(first.messages, 30)
	first.commit()
	first.leave()
	committed, err2 := offsets(steps.Group, steps.Topic)
	if err := steps.First(err, err2, steps.Same(rows, steps.InOrder(steps.Sample(30)), "records"),
		steps.Same(committed, []int64{10, 10, 10}, "committed")); err != nil {
		return err
	}
	again, err := join(steps.Group, steps.Topic)
	if err != nil {
		return err
	}
	defer again.leave()
	if err := send(settings(), steps.Topic, steps.Sample(3)); err != nil {
		return err
	}
	rows, err = collect(again.messages, 3)
	again.commit()
	return steps.First(err, steps.Same(rows, steps.Sample(3), "records behind the commit"))
}

func rebalance() error {
	topic, all := steps.Prefix+"-rebalance", []int32{0, 1, 2, 3}
	if err := create(topic, 4, nil); err != nil {
		return err
	}
	first, err := join(topic, topic)
	if err != nil {
		return err
	}
	defer first.leave()
	hasAll := func() bool { return steps.Same(first.owned(), all, "") == nil }
	if err := steps.Until(hasAll, "all partitions with one member"); err != nil {
		return err
	}
	second, err := join(topic, topic)
	if err != nil {
		return err
	}
	shared := steps.Until(func() bool {
		both := append(append([]int32{}, first.owned()...), second.owned()...)
		sort.Slice(both, func(a, b int) bool { return both[a] < both[b] })
		return len(first.owned()) == 2 && steps.Same(both, all, "") == nil
	}, "two partitions each")
	second.leave()
	return steps.First(shared, steps.Until(hasAll, "all partitions with the one that stays"))
}

func goOnAfterRestart() error {
	topic := steps.Prefix + "-restart"
	if err := create(topic, steps.Partitions, nil); err != nil {
		return err
	}
	config := settings()
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = 100, 200*time.Millisecond
	// Without it sarama may send a batch twice: it closes the new connection for an error of the old one.
	config.Producer.Idempotent, config.Net.MaxOpenRequests, config.Producer.RequiredAcks = true, 1, sarama.WaitForAll
	producer, err := sarama.NewSyncProducer([]string{steps.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := sendWith(producer, topic, steps.Sample(30)); err != nil {
		return err
	}
	reader, err := join(topic, topic)
	if err != nil {
		return err
	}
	defer reader.leave()
	_, err = collect(reader.messages, 30)
	reader.commit()
	if err := steps.First(err, steps.Restart(), sendWith(producer, topic, steps.Sample(6))); err != nil {
		return err
	}
	rows, err := collect(reader.messages, 6)
	if err := steps.First(err, steps.Same(rows, steps.InOrder(steps.Sample(6)), "records behind the restart")); err != nil {
		return err
	}
	return steps.Until(func() bool {
		reader.commit()
		committed, err := offsets(topic, topic)
		return err == nil && steps.Same(committed, []int64{12, 12, 12}, "") == nil
	}, "the last offsets committed")
}

func main() {
	var err error
	if admin, err = sarama.NewClusterAdmin([]string{steps.Bootstrap}, settings()); err != nil {
		panic(err)
	}
	all := []steps.Step{{Name: "create a topic", Do: createTopic}, {Name: "create a topic by producing", Do: autoCreation}}
	for _, name := range steps.Codecs {
		all = append(all, steps.Step{Name: "produce and consume, " + name, Do: func() error { return codec(name) }})
	}
	all = append(all, []steps.Step{
		{Name: "produce idempotently", Do: idempotent},
		{Name: "too large a record is refused", Do: tooLarge},
		{Name: "offsets for times", Do: offsetsForTimes},
		{Name: "consume in a group and commit", Do: groupCommit},
		{Name: "rebalance: one joins, one leaves", Do: rebalance},
		{Name: "go on after a restart of the broker", Do: goOnAfterRestart},
	}...)
	all = append(all, transactions()...)
	steps.Run("sarama", steps.ModuleVersion("github.com/IBM/sarama"), append(all, administration()...))
}
