// franz-go on secured listeners: securedfranz LOGINS.json
package main

import (
	"context"
	"time"

	"compatibility/logins"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(l logins.Login) sasl.Mechanism {
	switch l.Mechanism {
	case "PLAIN":
		return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: l.Token}.AsMechanism()
}

func client(l logins.Login, more ...kgo.Opt) (*kgo.Client, error) {
	options := append(more, kgo.SeedBrokers(l.Brokers()...), kgo.AllowAutoTopicCreation())
	if config := l.TLS(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if l.HasSasl() {
		options = append(options, kgo.SASL(mechanism(l)))
	}
	return kgo.NewClient(options...)
}

func roundTrip(l logins.Login) (string, error) {
	limit := 30 * time.Second
	if l.IsWrong {
		limit = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	producer, err := client(l)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: l.Topic, Value: []byte(l.Value)}).FirstErr(); err != nil {
		return "", err
	}
	first := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	consumer, err := client(l, kgo.ConsumerGroup(l.Group), kgo.ConsumeTopics(l.Topic), first)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	fetches := consumer.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return "", err
	}
	return string(fetches.Records()[0].Value), consumer.CommitUncommittedOffsets(ctx)
}

func main() { logins.Run(roundTrip) }
