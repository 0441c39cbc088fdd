// A member of a group, for tests of mixed groups: franzmember BOOTSTRAP GROUP TOPIC STRATEGY
// The strategy "consumer" is the protocol of KIP-848.
//
// It prints "held P P …" when its partitions change and "read P OFFSET" for each record, commits what it has
// read when partitions go, and leaves when its input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var strategies = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

type changes = map[string][]int32

type member struct {
	topic string
	lock  sync.Mutex
	own   map[int32]bool
}

// change notes partitions that came or went, and tells what is held now.
func (m *member) change(places changes, comes bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, partition := range places[m.topic] {
		if delete(m.own, partition); comes {
			m.own[partition] = true
		}
	}
	var held []string
	for partition := range m.own {
		held = append(held, fmt.Sprint(partition))
	}
	fmt.Println("held " + strings.Join(held, " "))
}

func commit(ctx context.Context, client *kgo.Client) {
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func main() {
	bootstrap, group, topic, strategy := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	m := &member{topic: topic, own: map[int32]bool{}}
	base := context.Background()
	if strategy == "consumer" {
		base = context.WithValue(base, "opt_in_kafka_next_gen_balancer_beta", true)
		strategy = "cooperative-sticky" // "uniform", in the words of brokers
	}
	client, err := kgo.NewClient(
		kgo.WithContext(base),
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.Balancers(strategies[strategy]), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, places changes) { m.change(places, true) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, places changes) {
			commit(ctx, client)
			m.change(places, false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, places changes) { m.change(places, false) }),
	)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			m.lock.Lock()
			defer m.lock.Unlock()
			fmt.Printf("read %d %d\n", record.Partition, record.Offset)
		})
		client.AllowRebalance()
	}
	commit(context.Background(), client)
	client.CloseAllowingRebalance()
}
