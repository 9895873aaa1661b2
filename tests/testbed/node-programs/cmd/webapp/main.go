// A web server for the tests: slow to start if told so, and it serves on for a while after it was asked to end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	address := flag.String("address", ":8080", "where to listen")
	start := flag.Duration("start", 0, "how long it takes until it is ready")
	shutdownDelay := flag.Duration("shutdown-delay", 0, "how long it serves on after SIGTERM")
	flag.Parse()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	name, _ := os.Hostname()
	handler := http.NewServeMux()
	handler.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, name) })
	handler.HandleFunc("/burn", burn)
	select {
	case <-time.After(*start):
	case <-asked:
		return
	}
	server := &http.Server{Addr: *address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-asked
		time.Sleep(*shutdownDelay)
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(patience)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-ended
}

// burn uses a core for ?for=DURATION, ten minutes at most.
func burn(answer http.ResponseWriter, request *http.Request) {
	wanted, err := time.ParseDuration(request.URL.Query().Get("for"))
	if err != nil {
		http.Error(answer, "for: "+err.Error(), http.StatusBadRequest)
		return
	}
	go func() {
		for until := time.Now().Add(min(wanted, 10*time.Minute)); time.Now().Before(until); {
		}
	}()
}
