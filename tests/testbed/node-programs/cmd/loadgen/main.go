// An open-loop load generator: each request starts when it is due, whatever became of those before it. A server
// that stalls meets all the requests it would meet in production, and their waiting counts.
//
// It sends rate × duration requests to one URL and then ends; SIGTERM ends it earlier. The result is JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

type outcome struct {
	due  time.Duration // since the start
	took time.Duration // since it was due
	err  string
	by   string
}

type second struct {
	Sent   int     `json:"sent"`
	Failed int     `json:"failed"`
	P99Ms  float64 `json:"p99Ms"`
}

type result struct {
	Requests   int            `json:"requests"`
	Failed     int            `json:"failed"`
	Errors     map[string]int `json:"errors"`
	AnsweredBy map[string]int `json:"answeredBy"`
	P50Ms      float64        `json:"p50Ms"`
	P99Ms      float64        `json:"p99Ms"`
	MaxMs      float64        `json:"maxMs"`
	GapMs      float64        `json:"longestGapMs"`  // between two answers that succeeded
	LateMs     float64        `json:"latestStartMs"` // how late the generator itself started a request
	Seconds    []second       `json:"seconds"`
}

func main() {
	url := flag.String("url", "", "where to send requests")
	rate := flag.Float64("rate", 100, "requests per second")
	duration := flag.Duration("duration", 10*time.Second, "how long")
	timeout := flag.Duration("timeout", 5*time.Second, "after this, a request has failed")
	keepAlive := flag.Bool("keep-alive", false, "reuse connections; otherwise each request opens its own")
	protocol := flag.String("protocol", "http1", "http1, http2 (without TLS), grpc (-url is HOST:PORT) or websocket")
	connections := flag.Int("connections", 10, "over how many connections gRPC calls and websocket messages go")
	flag.Parse()
	if *url == "" || *rate <= 0 || *rate > 10_000 || *duration <= 0 || *duration > time.Hour || *connections < 1 {
		fmt.Fprintln(os.Stderr, "loadgen: needs -url, 0 < -rate <= 10000, 0 < -duration <= 1h and 0 < -connections")
		os.Exit(2)
	}
	request, err := sender(*protocol, *url, *keepAlive, *connections, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(2)
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	outcomes, late := run(stop, request, *rate, *duration)
	report := summary(outcomes)
	report.LateMs = milliseconds(late)
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(stop context.Context, request send, rate float64, duration time.Duration) ([]outcome, time.Duration) {
	var (
		lock     sync.Mutex
		wait     sync.WaitGroup
		outcomes []outcome
		latest   time.Duration
	)
	began := time.Now()
	for number := 0; ; number++ {
		due := time.Duration(float64(number) / rate * float64(time.Second))
		if due >= duration {
			break
		}
		select {
		case <-stop.Done():
		case <-time.After(time.Until(began.Add(due))):
		}
		if stop.Err() != nil {
			break
		}
		latest = max(latest, time.Since(began)-due)
		wait.Go(func() {
			name, err := request()
			found := outcome{due: due, took: time.Since(began) - due, by: name}
			if err != nil {
				found.err = reason(err)
			}
			lock.Lock()
			defer lock.Unlock()
			outcomes = append(outcomes, found)
		})
	}
	wait.Wait()
	return outcomes, latest
}

// reason is the end of an error's text: what comes before are addresses and ports, different every time.
func reason(err error) string {
	parts := strings.Split(err.Error(), ": ")
	return parts[len(parts)-1]
}

func summary(outcomes []outcome) result {
	found := result{Requests: len(outcomes), Errors: map[string]int{}, AnsweredBy: map[string]int{}}
	var took []time.Duration
	var answered []time.Duration
	perSecond := map[int][]outcome{}
	for _, each := range outcomes {
		if each.err != "" {
			found.Failed++
			found.Errors[each.err]++
		} else {
			found.AnsweredBy[each.by]++
			answered = append(answered, each.due+each.took)
		}
		took = append(took, each.took)
		perSecond[int(each.due/time.Second)] = append(perSecond[int(each.due/time.Second)], each)
	}
	slices.Sort(answered)
	for place := 1; place < len(answered); place++ {
		found.GapMs = max(found.GapMs, milliseconds(answered[place]-answered[place-1]))
	}
	found.P50Ms, found.P99Ms, found.MaxMs = percentile(took, 50), percentile(took, 99), percentile(took, 100)
	for number := range len(perSecond) {
		found.Seconds = append(found.Seconds, secondOf(perSecond[number]))
	}
	return found
}

func secondOf(outcomes []outcome) second {
	found := second{Sent: len(outcomes)}
	var took []time.Duration
	for _, each := range outcomes {
		if each.err != "" {
			found.Failed++
		}
		took = append(took, each.took)
	}
	found.P99Ms = percentile(took, 99)
	return found
}

func percentile(values []time.Duration, share int) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return milliseconds(values[(len(values)-1)*share/100])
}

func milliseconds(value time.Duration) float64 {
	return float64(value.Microseconds()) / 1000
}
