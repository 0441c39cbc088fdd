// A member of a group, for tests of mixed groups: saramamember BOOTSTRAP GROUP TOPIC STRATEGY
//
// It prints "held 0 GENERATION P P …" when its partitions change and "read 0 GENERATION P OFFSET NEXT" for each
// record, as franzmember does. It commits what it has read when partitions go, and leaves when its input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

type member struct {
	topic string
	lock  sync.Mutex
}

func (m *member) tell(text string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	fmt.Println(text)
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.tell(fmt.Sprintf("held 0 %d ", session.GenerationID()) + strings.Trim(fmt.Sprint(session.Claims()[m.topic]), "[]"))
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	m.tell(fmt.Sprintf("held 0 %d", session.GenerationID()))
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.tell(fmt.Sprintf("read 0 %d %d %d %d", session.GenerationID(), message.Partition,
				message.Offset, message.Offset+1))
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	bootstrap, group, topic, strategy := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[strategy]}
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.MaxWaitTime = 50 * time.Millisecond
	joined, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	m := &member{topic: topic}
	for ctx.Err() == nil {
		if err := joined.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := joined.Close(); err != nil {
		panic(err)
	}
}
