// franz-go: every step of the matrix, in classic groups (the ones that the broker has).
package main

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"compatibility/steps"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	admin      *kadm.Client
	background = context.Background()
	codecs     = map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
)

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(steps.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
	}, options...)...)
	if err != nil {
		panic(err)
	}
	return made
}

func send(topic string, rows []steps.Row, options ...kgo.Opt) error {
	producer := client(options...)
	defer producer.Close()
	return sendWith(producer, topic, rows)
}

func sendWith(producer *kgo.Client, topic string, rows []steps.Row) error {
	var records []*kgo.Record
	for _, row := range rows {
		record := &kgo.Record{Topic: topic, Partition: row.Partition, Timestamp: time.UnixMilli(row.TimeMs)}
		if row.Key != steps.Nil {
			record.Key = []byte(row.Key)
		}
		if row.Value != steps.Nil {
			record.Value = []byte(row.Value)
		}
		for _, pair := range row.HeaderPairs() {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: pair[0], Value: []byte(pair[1])})
		}
		records = append(records, record)
	}
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
	defer cancel()
	return producer.ProduceSync(ctx, records...).FirstErr()
}

func read(reader *kgo.Client, count int) ([]steps.Row, error) {
	var rows []steps.Row
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
	defer cancel()
	for len(rows) < count {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, steps.Same(len(rows), count, "records within 30 s")
		}
		fetches.EachRecord(func(record *kgo.Record) {
			headers := ""
			for _, each := range record.Headers {
				headers += each.Key + "=" + string(each.Value) + ";"
			}
			rows = append(rows, steps.Row{
				Partition: record.Partition, TimeMs: record.Timestamp.UnixMilli(),
				Key: steps.Text(record.Key), Value: steps.Text(record.Value), HeaderKeyValues: headers,
			})
		})
	}
	return steps.InOrder(rows), nil
}

func readAll(topic string, count int) ([]steps.Row, error) {
	reader := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	return read(reader, count)
}

// member is a consumer of a group that knows what it owns.
type member struct {
	*kgo.Client
	lock sync.Mutex
	own  map[int32]bool
}

func join(group, topic string) *member {
	m := &member{own: map[int32]bool{}}
	change := func(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			m.lock.Lock()
			defer m.lock.Unlock()
			for _, partition := range changed[topic] {
				if delete(m.own, partition); owned {
					m.own[partition] = true
				}
			}
		}
	}
	m.Client = client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	)
	return m
}

func (m *member) owned() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	all := []int32{}
	for partition := range m.own {
		all = append(all, partition)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	return all
}

func create(topic string, partitions int32, configs map[string]*string) error {
	_, err := admin.CreateTopic(background, partitions, 1, configs, topic)
	return err
}

func createTopic() error {
	if err := create(steps.Topic, steps.Partitions, nil); err != nil {
		return err
	}
	again := create(steps.Topic, steps.Partitions, nil)
	return steps.First(
		steps.Until(func() bool {
			found, err := admin.ListTopics(background)
			return err == nil && len(found[steps.Topic].Partitions) == steps.Partitions
		}, "the topic in the list"),
		steps.Same(errors.Is(again, kerr.TopicAlreadyExists), true, "refusal of a second creation"),
	)
}

func autoCreation() error {
	topic := steps.Prefix + "-auto"
	if err := send(topic, []steps.Row{{TimeMs: steps.FirstTimeMs, Key: "k", Value: "v"}}); err != nil {
		return err
	}
	found, err := admin.ListTopics(background, topic)
	return steps.First(err, steps.Same(len(found[topic].Partitions), 1, "partitions"))
}

func written(topic string, options ...kgo.Opt) error {
	if err := steps.First(create(topic, steps.Partitions, nil), send(topic, steps.Sample(30), options...)); err != nil {
		return err
	}
	rows, err := readAll(topic, 30)
	return steps.First(err, steps.Same(rows, steps.InOrder(steps.Sample(30)), "records"))
}

func codec(name string) error {
	return written(steps.Prefix+"-"+name, kgo.ProducerBatchCompression(codecs[name]), kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(1))
}

func idempotent() error {
	return written(steps.Prefix + "-idempotent")
}

func tooLarge() error {
	topic, limit := steps.Prefix+"-large", "2000"
	if err := create(topic, 1, map[string]*string{"max.message.bytes": &limit}); err != nil {
		return err
	}
	err := send(topic, []steps.Row{{TimeMs: steps.FirstTimeMs, Key: "k", Value: string(make([]byte, 5000))}},
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	return steps.Same(errors.Is(err, kerr.MessageTooLarge), true, "refused as too large")
}

func offsetsForTimes() error {
	topic := steps.Prefix + "-none"
	at, err1 := admin.ListOffsetsAfterMilli(background, steps.Sample(30)[15].TimeMs, topic)
	start, err2 := admin.ListStartOffsets(background, topic)
	end, err3 := admin.ListEndOffsets(background, topic)
	if err := steps.First(err1, err2, err3); err != nil {
		return err
	}
	found := []int64{at[topic][1].Offset, start[topic][1].Offset, end[topic][1].Offset}
	return steps.Same(found, []int64{5, 0, 10}, "offsets")
}

func offsets(group, topic string) ([]int64, error) {
	found, err := admin.FetchOffsets(background, group)
	if err != nil {
		return nil, err
	}
	all := []int64{}
	for partition := int32(0); partition < steps.Partitions; partition++ {
		if each, ok := found.Lookup(topic, partition); ok {
			all = append(all, each.At)
		}
	}
	return all, nil
}

func groupCommit() error {
	if err := send(steps.Topic, steps.Sample(30)); err != nil {
		return err
	}
	first := join(steps.Group, steps.Topic)
	rows, err := read(first.Client, 30)
	err2 := first.CommitUncommittedOffsets(background)
	first.Close()
	committed, err3 := offsets(steps.Group, steps.Topic)
	if err := steps.First(err, err2, err3, steps.Same(rows, steps.InOrder(steps.Sample(30)), "records"),
		steps.Same(committed, []int64{10, 10, 10}, "committed")); err != nil {
		return err
	}
	again := join(steps.Group, steps.Topic)
	defer again.Close()
	if err := send(steps.Topic, steps.Sample(3)); err != nil {
		return err
	}
	rows, err = read(again.Client, 3)
	return steps.First(err, again.CommitUncommittedOffsets(background),
		steps.Same(rows, steps.Sample(3), "records behind the commit"))
}

func rebalance() error {
	topic, all := steps.Prefix+"-rebalance", []int32{0, 1, 2, 3}
	if err := create(topic, 4, nil); err != nil {
		return err
	}
	first := join(topic, topic)
	defer first.Close()
	hasAll := func() bool { return steps.Same(first.owned(), all, "") == nil }
	if err := steps.Until(hasAll, "all partitions with one member"); err != nil {
		return err
	}
	second := join(topic, topic)
	shared := steps.Until(func() bool {
		both := append(first.owned(), second.owned()...)
		sort.Slice(both, func(a, b int) bool { return both[a] < both[b] })
		return len(first.owned()) == 2 && steps.Same(both, all, "") == nil
	}, "two partitions each")
	second.Close()
	return steps.First(shared, steps.Until(hasAll, "all partitions with the one that stays"))
}

func goOnAfterRestart() error {
	topic := steps.Prefix + "-restart"
	if err := create(topic, steps.Partitions, nil); err != nil {
		return err
	}
	producer, reader := client(), join(topic, topic)
	defer producer.Close()
	defer reader.Close()
	if err := sendWith(producer, topic, steps.Sample(30)); err != nil {
		return err
	}
	_, err := read(reader.Client, 30)
	err = steps.First(err, reader.CommitUncommittedOffsets(background))
	if err = steps.First(err, steps.Restart(), sendWith(producer, topic, steps.Sample(6))); err != nil {
		return err
	}
	rows, err := read(reader.Client, 6)
	if err := steps.First(err, steps.Same(rows, steps.InOrder(steps.Sample(6)), "records behind the restart")); err != nil {
		return err
	}
	return steps.Until(func() bool {
		committed, err := offsets(topic, topic)
		return steps.First(reader.CommitUncommittedOffsets(background), err,
			steps.Same(committed, []int64{12, 12, 12}, "")) == nil
	}, "the last offsets committed")
}

func main() {
	admin = kadm.NewClient(client())
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
	steps.Run("franz-go", steps.ModuleVersion("github.com/twmb/franz-go"), append(all, administration()...))
}
