// sarama on secured listeners: securedsarama LOGINS.json
package main

import (
	"context"
	"errors"
	"time"

	"compatibility/logins"

	"github.com/IBM/sarama"
)

type tokens string

func (t tokens) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func settings(l logins.Login) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.MaxWaitTime = 50 * time.Millisecond
	if l.IsWrong {
		config.Metadata.Retry.Max = 0
	}
	if tls := l.TLS(); tls != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, tls
	}
	if l.HasSasl() {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(l.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = l.User, l.Password
		config.Net.SASL.TokenProvider = tokens(l.Token)
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scram{mechanism: l.Mechanism} }
	}
	return config
}

type reader struct{ values chan string }

func (r reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		session.Commit()
		r.values <- string(message.Value)
	}
	return nil
}

func roundTrip(l logins.Login) (string, error) {
	brokers, config := l.Brokers(), settings(l)
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: l.Topic, Value: sarama.StringEncoder(l.Value)})
	if err != nil {
		return "", err
	}
	group, err := sarama.NewConsumerGroup(brokers, l.Group, config)
	if err != nil {
		return "", err
	}
	defer group.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	values, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- group.Consume(ctx, []string{l.Topic}, reader{values}) }()
	select {
	case value := <-values:
		return value, nil
	case err := <-ended:
		return "", err
	case <-time.After(30 * time.Second):
		return "", errors.New("no record within 30 s")
	}
}

func main() { logins.Run(roundTrip) }
