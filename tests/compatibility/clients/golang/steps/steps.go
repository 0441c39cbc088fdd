// Package steps holds what the scripts of Go clients share: verdicts, the records they send, the restart.
package steps

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"sort"
	"strings"
	"time"
)

const Partitions = 3

var (
	Bootstrap, Prefix = os.Args[1], os.Args[2]
	Topic, Group      = Prefix + "-topic", Prefix + "-group"
	Codecs            = []string{"none", "gzip", "snappy", "lz4", "zstd"}
	FirstTimeMs       = time.Now().UnixMilli() - 60_000
	answers           = bufio.NewReader(os.Stdin)
	errSkip           = errors.New("skip")
)

// Step is one row of the matrix.
type Step struct {
	Name string
	Do   func() error
}

// Row is a record as a user sees it; "<nil>" stands for no bytes at all.
type Row struct {
	Partition       int32
	TimeMs          int64
	Key, Value      string
	HeaderKeyValues string
}

// Nil marks an absent key or value.
const Nil = "<nil>"

// Text is the bytes as a string, Nil where there are none.
func Text(bytes []byte) string {
	if bytes == nil {
		return Nil
	}
	return string(bytes)
}

// Sample makes records with and without keys, values and headers.
func Sample(count int) []Row {
	var rows []Row
	for n := 0; n < count; n++ {
		row := Row{Partition: int32(n % Partitions), TimeMs: FirstTimeMs + 1000*int64(n)}
		row.Key = fmt.Sprintf("key %d", n)
		if n%5 == 4 {
			row.Key = Nil
		}
		switch n % 10 {
		case 3:
			row.Value = ""
		case 6:
			row.Value = Nil
		default:
			row.Value = strings.Repeat(fmt.Sprintf("value %d ", n), 1+n%7*40)
		}
		if n%3 > 0 {
			row.HeaderKeyValues = "kind=sample;"
		}
		if n%3 > 1 {
			row.HeaderKeyValues += fmt.Sprintf("number=%d;", n)
		}
		rows = append(rows, row)
	}
	return rows
}

// InOrder sorts by partition only: order holds within a partition.
func InOrder(rows []Row) []Row {
	sort.SliceStable(rows, func(a, b int) bool { return rows[a].Partition < rows[b].Partition })
	return rows
}

// HeaderPairs splits the headers of a row.
func (row Row) HeaderPairs() [][2]string {
	var pairs [][2]string
	for _, each := range strings.Split(row.HeaderKeyValues, ";") {
		if key, value, found := strings.Cut(each, "="); found {
			pairs = append(pairs, [2]string{key, value})
		}
	}
	return pairs
}

// Same fails with both sides when they differ.
func Same(got, wanted any, what string) error {
	if reflect.DeepEqual(got, wanted) {
		return nil
	}
	return fmt.Errorf("%s: got %.300s, wanted %.300s", what, fmt.Sprint(got), fmt.Sprint(wanted))
}

// First is the first error there is.
func First(all ...error) error {
	for _, each := range all {
		if each != nil {
			return each
		}
	}
	return nil
}

// Until asks again until the answer is true.
func Until(condition func() bool, what string) error {
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within 30 s", what)
		}
	}
	return nil
}

// Restart has the broker restarted, or skips the step.
func Restart() error {
	say(map[string]any{"ask": "restart"})
	if line, _ := answers.ReadString('\n'); line != "restarted\n" {
		return fmt.Errorf("%w: this broker cannot be restarted by the test", errSkip)
	}
	return nil
}

// ModuleVersion is the version of a module that this program was built with.
func ModuleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == path {
			return each.Version
		}
	}
	return "unknown"
}

// Run does all steps in turn and prints their verdicts.
func Run(client, version string, all []Step) {
	say(map[string]any{"client": client, "version": version})
	for _, step := range all {
		verdict := map[string]any{"step": step.Name, "outcome": "passed"}
		if err := attempt(step.Do); errors.Is(err, errSkip) {
			verdict["outcome"], verdict["detail"] = "skipped", strings.TrimPrefix(err.Error(), "skip: ")
		} else if err != nil {
			verdict["outcome"], verdict["detail"] = "failed", fmt.Sprintf("%T: %.500s", err, err.Error())
		}
		say(verdict)
	}
	say(map[string]any{"done": true})
}

func attempt(do func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if trouble := recover(); trouble != nil {
				done <- fmt.Errorf("panic: %v", trouble)
			}
		}()
		done <- do()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(45 * time.Second):
		return errors.New("the step did not end within 45 s")
	}
}

func say(fields map[string]any) {
	line, _ := json.Marshal(fields)
	fmt.Println(string(line))
}
