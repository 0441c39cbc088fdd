// Members of a group, for tests of mixed groups: franzmember BOOTSTRAP GROUP TOPIC STRATEGY [COUNT SESSION-MS]
// The strategy "consumer" is the protocol of KIP-848.
//
// It prints "held MEMBER GENERATION P P …" when the partitions of a member change and
// "read MEMBER GENERATION P FIRST NEXT" for the records of a poll. It commits after each poll and when
// partitions go, and leaves when its input ends or at SIGTERM.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
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

var output sync.Mutex

type member struct {
	number int
	topic  string
	own    map[int32]bool
}

// who is the member and its generation or epoch.
func (m *member) who(client *kgo.Client) string {
	_, generation := client.GroupMetadata()
	return fmt.Sprintf("%d %d", m.number, generation)
}

// change notes partitions that came or went, and prints what is held now.
func (m *member) change(client *kgo.Client, places changes, comes bool) {
	output.Lock()
	defer output.Unlock()
	for _, partition := range places[m.topic] {
		if delete(m.own, partition); comes {
			m.own[partition] = true
		}
	}
	var held []string
	for partition := range m.own {
		held = append(held, fmt.Sprint(partition))
	}
	fmt.Println("held", m.who(client), strings.Join(held, " "))
}

// printed prints what a poll has brought; false if that is nothing.
func (m *member) printed(client *kgo.Client, fetches kgo.Fetches) bool {
	output.Lock()
	defer output.Unlock()
	fetches.EachPartition(func(some kgo.FetchTopicPartition) {
		if count := len(some.Records); count > 0 {
			first, next := some.Records[0].Offset, some.Records[count-1].Offset+1
			if next-first != int64(count) {
				panic(fmt.Sprintf("%d is out of order from %d to %d", some.Partition, first, next))
			}
			fmt.Println("read", m.who(client), some.Partition, first, next)
		}
	})
	return !fetches.Empty()
}

func commit(ctx context.Context, client *kgo.Client) {
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (m *member) run(ctx context.Context, bootstrap, group, strategy string, session time.Duration) {
	base := context.Background()
	if strategy == "consumer" {
		base = context.WithValue(base, "opt_in_kafka_next_gen_balancer_beta", true)
		strategy = "cooperative-sticky" // "uniform", in the words of brokers
	}
	client, err := kgo.NewClient(
		kgo.WithContext(base),
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(m.topic),
		kgo.Balancers(strategies[strategy]), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, places changes) {
			m.change(client, places, true)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, places changes) {
			commit(ctx, client)
			m.change(client, places, false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, client *kgo.Client, places changes) {
			m.change(client, places, false)
		}),
	)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		if m.printed(client, client.PollFetches(ctx)) {
			commit(ctx, client)
		}
		client.AllowRebalance()
	}
	commit(context.Background(), client)
	client.CloseAllowingRebalance()
}

// argument is an optional number.
func argument(index, otherwise int) int {
	if len(os.Args) <= index {
		return otherwise
	}
	number, err := strconv.Atoi(os.Args[index])
	if err != nil {
		panic(err)
	}
	return number
}

func main() {
	bootstrap, group, topic, strategy := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	session := time.Duration(argument(6, 45000)) * time.Millisecond
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var members sync.WaitGroup
	for number := range argument(5, 1) {
		members.Add(1)
		go func() {
			defer members.Done()
			m := &member{number: number, topic: topic, own: map[int32]bool{}}
			m.run(ctx, bootstrap, group, strategy, session)
		}()
	}
	members.Wait()
}
