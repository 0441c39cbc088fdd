package main

import (
	"context"
	"fmt"
	"time"

	"compatibility/steps"

	"github.com/twmb/franz-go/pkg/kgo"
)

// session is a transactional producer. Positions need a group session in franz-go: see copyInTransactions.
type session struct {
	*kgo.Client
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(background, 30*time.Second)
}

func openSession(transactionalID string, timeout time.Duration) (steps.Session, error) {
	made := session{client(kgo.TransactionalID(transactionalID), kgo.TransactionTimeout(timeout))}
	ctx, cancel := limited()
	defer cancel()
	_, _, err := made.ProducerID(ctx)
	return made, err
}

func (s session) Begin() error { return s.BeginTransaction() }

func (s session) Send(topic, value string) error {
	ctx, cancel := limited()
	defer cancel()
	return s.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
}

func (s session) SendOffset(string, int64, string) error { return nil }

func (s session) end(commit kgo.TransactionEndTry) error {
	ctx, cancel := limited()
	defer cancel()
	return s.EndTransaction(ctx, commit)
}

func (s session) Commit() error { return s.end(kgo.TryCommit) }

func (s session) Abort() error { return s.end(kgo.TryAbort) }

func readCommitted(topic string, count int) ([]string, error) {
	reader := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	rows, err := read(reader, count)
	values := []string{}
	for _, row := range rows {
		values = append(values, row.Value)
	}
	return values, err
}

func createOne(topic string) error { return create(topic, 1, nil) }

// copyInTransactions copies a topic in transactions of a group. The first one is aborted, and read again.
func copyInTransactions() error {
	from, to := steps.Prefix+"-from", steps.Prefix+"-to"
	if err := steps.First(createOne(from), createOne(to)); err != nil {
		return err
	}
	var rows []steps.Row
	var wanted []string
	for number := 0; number < 10; number++ {
		rows = append(rows, steps.Row{TimeMs: steps.FirstTimeMs, Key: "k", Value: fmt.Sprint(number)})
		wanted = append(wanted, fmt.Sprint(number))
	}
	if err := send(from, rows); err != nil {
		return err
	}
	group, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(steps.Bootstrap), kgo.TransactionalID(to), kgo.ConsumerGroup(to),
		kgo.ConsumeTopics(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, cancel := limited()
	defer cancel()
	for copied, aborted := 0, false; copied < len(rows); aborted = true {
		fetched := group.PollRecords(ctx, 4)
		if err := steps.First(fetched.Err0(), group.Begin()); err != nil {
			return err
		}
		for _, record := range fetched.Records() {
			copy := &kgo.Record{Topic: to, Value: record.Value}
			if err := group.ProduceSync(ctx, copy).FirstErr(); err != nil {
				return err
			}
		}
		committed, err := group.End(ctx, kgo.TransactionEndTry(aborted))
		if err != nil {
			return err
		}
		if committed {
			copied += fetched.NumRecords()
		}
	}
	values, err := readCommitted(to, len(wanted))
	found, err2 := admin.FetchOffsets(background, to)
	position, _ := found.Lookup(from, 0)
	return steps.First(err, err2, steps.Same(values, wanted, "committed values"),
		steps.Same(position.At, int64(len(rows)), "position"))
}

func transactions() []steps.Step {
	library := steps.Library{
		Create: createOne,
		Open:   openSession,
		Write: func(topic, value string) error {
			return send(topic, []steps.Row{{TimeMs: steps.FirstTimeMs, Key: "k", Value: value}})
		},
		Read: readCommitted,
	}
	all := library.Transactions()
	ended := all[0].Do
	all[0].Do = func() error { return steps.First(ended(), copyInTransactions()) }
	return all
}
