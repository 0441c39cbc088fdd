package main

import (
	"time"

	"compatibility/steps"

	"github.com/IBM/sarama"
)

// session is a transactional producer.
type session struct {
	sarama.SyncProducer
}

func openSession(transactionalID string, timeout time.Duration) (steps.Session, error) {
	config := settings()
	config.Version = sarama.MaxVersion
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = transactionalID
	config.Producer.Transaction.Timeout = timeout
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = 100, 200*time.Millisecond
	config.Producer.Transaction.Retry.Max, config.Producer.Transaction.Retry.Backoff = 100, 200*time.Millisecond
	config.Net.MaxOpenRequests = 1
	made, err := sarama.NewSyncProducer([]string{steps.Bootstrap}, config)
	return session{made}, err
}

func (s session) Begin() error { return s.BeginTxn() }

func (s session) Send(topic, value string) error {
	_, _, err := s.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
	return err
}

func (s session) SendOffset(topic string, offset int64, group string) error {
	position := &sarama.PartitionOffsetMetadata{Partition: 0, Offset: offset}
	return s.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{topic: {position}}, group)
}

func (s session) Commit() error { return s.CommitTxn() }

func (s session) Abort() error { return s.AbortTxn() }

func (s session) Close() { _ = s.SyncProducer.Close() }

func readCommitted(topic string, count int) ([]string, error) {
	config := settings()
	config.Version = sarama.MaxVersion
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer([]string{steps.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer reader.AsyncClose()
	messages := make(chan *sarama.ConsumerMessage, 1000)
	go func() {
		for message := range reader.Messages() {
			messages <- message
		}
	}()
	rows, err := collect(messages, count)
	values := []string{}
	for _, row := range rows {
		values = append(values, row.Value)
	}
	return values, err
}

func transactions() []steps.Step {
	library := steps.Library{
		Create: func(topic string) error { return create(topic, 1, nil) },
		Open:   openSession,
		Write: func(topic, value string) error {
			return send(settings(), topic, []steps.Row{{TimeMs: steps.FirstTimeMs, Key: "k", Value: value}})
		},
		Read: readCommitted,
		Position: func(group, topic string) (int64, error) {
			found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
			if err != nil {
				return 0, err
			}
			return found.GetBlock(topic, 0).Offset, nil
		},
	}
	return library.Transactions()
}
