// Copies the topic "in" to "out" in transactions of a group: franztransactions BOOTSTRAP COUNT
//
// The first transaction is aborted, and what it read is read again. Then a second producer with the same id
// begins, and the commit of the first must fail.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func copyAll(ctx context.Context, bootstrap string, count int) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID("copy"), kgo.ConsumerGroup("other"),
		kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
	)
	check(err)
	defer session.Close()
	for copied, aborted := 0, false; copied < count; {
		fetched := session.PollRecords(ctx, 4)
		check(fetched.Err0())
		check(session.Begin())
		for _, record := range fetched.Records() {
			check(session.ProduceSync(ctx, &kgo.Record{Topic: "out", Value: record.Value}).FirstErr())
		}
		committed, err := session.End(ctx, kgo.TransactionEndTry(aborted))
		check(err)
		if committed {
			copied += fetched.NumRecords()
		}
		aborted = true
	}
}

func producer(ctx context.Context, bootstrap string) *kgo.Client {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("fenced"))
	check(err)
	check(client.BeginTransaction())
	check(client.ProduceSync(ctx, &kgo.Record{Topic: "out", Value: []byte("lost")}).FirstErr())
	return client
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	bootstrap := os.Args[1]
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	copyAll(ctx, bootstrap, count)
	first := producer(ctx, bootstrap)
	second := producer(ctx, bootstrap)
	err = first.EndTransaction(ctx, kgo.TryCommit)
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
		fmt.Println("fenced")
	} else {
		fmt.Println("not fenced:", err)
	}
	check(second.EndTransaction(ctx, kgo.TryAbort))
	first.Close()
	second.Close()
}
