// One kfake broker on one port: franz-go's Kafka in a process, to compare with. It ends when its standard
// input does, so that it cannot outlive the benchmark.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 9092, "port of 127.0.0.1 to listen on")
	directory := flag.String("data-dir", "", "where to keep records; empty: in memory")
	flag.Parse()
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(*port),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(1),
	}
	if *directory != "" {
		options = append(options, kfake.DataDir(*directory))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	io.Copy(io.Discard, os.Stdin)
}
