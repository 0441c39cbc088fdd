// Commits the numbers below COUNT to "out", with a position of the topic "in" each, and aborts others between
// them: saramatransactions BOOTSTRAP COUNT
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/IBM/sarama"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func producer(bootstrap string) sarama.SyncProducer {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = "sarama"
	config.Net.MaxOpenRequests = 1
	made, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	check(err)
	return made
}

func send(one sarama.SyncProducer, value string) {
	check(one.BeginTxn())
	_, _, err := one.SendMessage(&sarama.ProducerMessage{Topic: "out", Value: sarama.StringEncoder(value)})
	check(err)
}

func main() {
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	first := producer(os.Args[1])
	for number := 0; number < count; number++ {
		send(first, strconv.Itoa(number))
		position := &sarama.PartitionOffsetMetadata{Partition: 0, Offset: int64(number) + 1}
		offsets := map[string][]*sarama.PartitionOffsetMetadata{"in": {position}}
		check(first.AddOffsetsToTxn(offsets, "other"))
		check(first.CommitTxn())
		send(first, "aborted")
		check(first.AbortTxn())
	}
	send(first, "lost")
	second := producer(os.Args[1])
	if first.CommitTxn() != nil {
		fmt.Println("fenced")
	} else {
		fmt.Println("not fenced")
	}
	check(second.Close())
}
