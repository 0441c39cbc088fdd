// sarama as it was in 2020. It asks no broker what it can do but sends what its Config.Version says: with the
// default of that time message format 0 and the first version of every request.
package main

import (
	"context"
	"errors"
	"time"

	"compatibility/steps"

	"github.com/Shopify/sarama"
)

var (
	admin   sarama.ClusterAdmin
	seed    = []string{steps.Bootstrap}
	formats = []struct {
		name    string
		version sarama.KafkaVersion
		codecs  []string
	}{
		{"format 0: ", sarama.V0_8_2_0, []string{"none", "gzip", "snappy"}},
		{"format 1: ", sarama.V0_10_2_0, []string{"none", "gzip", "snappy", "lz4"}},
		{"", sarama.V2_1_0_0, steps.Codecs},
	}
	codecs = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
)

func settings(version sarama.KafkaVersion) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = 100, 100*time.Millisecond
	config.Metadata.Retry.Max = 20
	return config
}

// asKept is what a message format keeps of a record: times since 1, headers since 2.
func asKept(rows []steps.Row, version sarama.KafkaVersion) []steps.Row {
	for n := range rows {
		if !version.IsAtLeast(sarama.V0_10_0_0) {
			rows[n].TimeMs = 0
		}
		if !version.IsAtLeast(sarama.V0_11_0_0) {
			rows[n].HeaderKeyValues = ""
		}
	}
	return rows
}

func send(config *sarama.Config, topic string, rows []steps.Row) error {
	producer, err := sarama.NewSyncProducer(seed, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return sendWith(producer, topic, rows)
}

func sendWith(producer sarama.SyncProducer, topic string, rows []steps.Row) error {
	var messages []*sarama.ProducerMessage
	for _, row := range rows {
		message := &sarama.ProducerMessage{Topic: topic, Partition: row.Partition}
		if row.TimeMs > 0 {
			message.Timestamp = time.Unix(row.TimeMs/1000, row.TimeMs%1000*1_000_000)
		}
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

func collect(from chan *sarama.ConsumerMessage, count int) ([]steps.Row, error) {
	var rows []steps.Row
	late := time.After(30 * time.Second)
	for len(rows) < count {
		select {
		case message := <-from:
			row := steps.Row{Partition: message.Partition, Key: steps.Text(message.Key), Value: steps.Text(message.Value)}
			if message.Timestamp.Unix() > 0 {
				row.TimeMs = message.Timestamp.UnixMilli()
			}
			for _, each := range message.Headers {
				row.HeaderKeyValues += string(each.Key) + "=" + string(each.Value) + ";"
			}
			rows = append(rows, row)
		case <-late:
			return nil, steps.Same(len(rows), count, "records within 30 s")
		}
	}
	return steps.InOrder(rows), nil
}

func readAll(config *sarama.Config, topic string, count int) ([]steps.Row, error) {
	consumer, err := sarama.NewConsumer(seed, config)
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

func written(topic string, config *sarama.Config) error {
	sample := asKept(steps.Sample(30), config.Version)
	if err := steps.First(create(topic, steps.Partitions), send(config, topic, sample)); err != nil {
		return err
	}
	rows, err := readAll(config, topic, 30)
	return steps.First(err, steps.Same(rows, steps.InOrder(sample), "records"))
}

func codec(name string, version sarama.KafkaVersion) error {
	config := settings(version)
	config.Producer.Compression = codecs[name]
	return written(steps.Prefix+"-"+version.String()+"-"+name, config)
}

func idempotent() error {
	config := settings(sarama.V2_1_0_0)
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	return written(steps.Prefix+"-idempotent", config)
}

func autoCreation() error {
	topic := steps.Prefix + "-auto"
	return steps.First(
		send(settings(sarama.V0_8_2_0), topic, []steps.Row{{Key: "k", Value: "v"}}),
		steps.Until(func() bool { return partitionCount(topic) == 1 }, "the topic"),
	)
}

// member reads for a group and commits in its own time.
type member struct {
	group    sarama.ConsumerGroup
	cancel   context.CancelFunc
	messages chan *sarama.ConsumerMessage
	ended    chan bool
}

func join(group, topic string) (*member, error) {
	joined, err := sarama.NewConsumerGroup(seed, group, settings(sarama.V2_1_0_0))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{joined, cancel, make(chan *sarama.ConsumerMessage, 1000), make(chan bool)}
	go func() {
		for ctx.Err() == nil {
			if joined.Consume(ctx, []string{topic}, m) != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
		close(m.ended)
	}()
	return m, nil
}

func (m *member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.messages <- message
	}
	return nil
}

func (m *member) leave() {
	m.cancel()
	<-m.ended
	m.group.Close()
}

func groupCommit() error {
	return consumeTwice(steps.Group, steps.Topic, func() error { return nil })
}

func goOnAfterRestart() error {
	topic := steps.Prefix + "-restart"
	// Its admin client does not find a broker again that it has lost.
	again := func() error { return steps.First(steps.Restart(), connect()) }
	return steps.First(create(topic, steps.Partitions), consumeTwice(topic, topic, again))
}

// consumeTwice reads 30 records and commits, lets something happen, and reads what comes then.
func consumeTwice(group, topic string, between func() error) error {
	producer, err := sarama.NewSyncProducer(seed, settings(sarama.V2_1_0_0))
	if err != nil {
		return err
	}
	defer producer.Close()
	reader, err := join(group, topic)
	if err != nil {
		return err
	}
	defer reader.leave()
	if err := sendWith(producer, topic, steps.Sample(30)); err != nil {
		return err
	}
	rows, err := collect(reader.messages, 30)
	err = steps.First(err, steps.Same(rows, steps.InOrder(steps.Sample(30)), "records"))
	err = steps.First(err, steps.Until(func() bool { return committed(group, topic, 10) }, "a commit"))
	if err = steps.First(err, between()); err != nil {
		return err
	}
	if err := sendWith(producer, topic, steps.Sample(3)); err != nil {
		return err
	}
	rows, err = collect(reader.messages, 3)
	return steps.First(err, steps.Same(rows, steps.Sample(3), "records behind the commit"),
		steps.Until(func() bool { return committed(group, topic, 11) }, "the last commit"))
}

func connect() (err error) {
	admin, err = sarama.NewClusterAdmin(seed, settings(sarama.V2_1_0_0))
	return err
}

func main() {
	if err := connect(); err != nil {
		panic(err)
	}
	all := []steps.Step{{Name: "create a topic", Do: createTopic}, {Name: "create a topic by producing", Do: autoCreation}}
	for _, format := range formats {
		for _, name := range format.codecs {
			all = append(all, steps.Step{Name: format.name + "produce and consume, " + name,
				Do: func() error { return codec(name, format.version) }})
		}
	}
	all = append(all, []steps.Step{
		{Name: "produce idempotently", Do: idempotent},
		{Name: "consume in a group and commit", Do: groupCommit},
		{Name: "go on after a restart of the broker", Do: goOnAfterRestart},
	}...)
	steps.Run("sarama of 2020", steps.ModuleVersion("github.com/Shopify/sarama"), append(all, administration()...))
}
