// A web server for the tests: HTTP/1.1, HTTP/2 without TLS and websockets on one port, gRPC on another. It is slow to
// start if told so, and it serves on for a while after it was asked to end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// patience is how long requests and websockets that are still there may take, after the delay.
const patience = 5 * time.Second

func main() {
	address := flag.String("address", ":8080", "where to listen for HTTP and websockets")
	grpcAddress := flag.String("grpc-address", ":9090", "where to listen for gRPC")
	start := flag.Duration("start", 0, "how long it takes until it is ready")
	shutdownDelay := flag.Duration("shutdown-delay", 0, "how long it serves on after SIGTERM")
	flag.Parse()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-time.After(*start):
	case <-asked:
		return
	}
	name, _ := os.Hostname()
	sockets := &sockets{name: name, open: map[*websocket.Conn]bool{}}
	server := httpServer(*address, name, sockets)
	rpc := grpcServer(name)
	listener, err := net.Listen("tcp", *grpcAddress)
	if err != nil {
		fail(err)
	}
	go func() { _ = rpc.Serve(listener) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-asked
		time.Sleep(*shutdownDelay)
		end(server, rpc, sockets)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fail(err)
	}
	<-ended
}

// end lets every client finish: websockets are asked to reconnect, HTTP/2 and gRPC are told to go away, and requests
// that have begun are answered.
func end(server *http.Server, rpc *grpc.Server, sockets *sockets) {
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() { sockets.askToReconnect(limit) })
	wait.Go(func() {
		stopped := make(chan struct{})
		go func() { rpc.GracefulStop(); close(stopped) }()
		select {
		case <-stopped:
		case <-limit.Done():
			rpc.Stop()
		}
	})
	wait.Wait()
	_ = server.Shutdown(limit)
}

func httpServer(address, name string, sockets *sockets) *http.Server {
	handler := http.NewServeMux()
	handler.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, name) })
	handler.HandleFunc("/burn", burn)
	handler.Handle("/ws", websocket.Server{Handler: sockets.serve})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Addr: address, Handler: handler, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second}
}

// grpcServer has the health service, which every call of the load generator asks; a header says who answers.
func grpcServer(name string) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(
		func(call context.Context, request any, _ *grpc.UnaryServerInfo, answer grpc.UnaryHandler) (any, error) {
			if err := grpc.SetHeader(call, metadata.Pairs("pod", name)); err != nil {
				return nil, err
			}
			return answer(call, request)
		}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	return server
}

// sockets are the open websockets. Each message is answered with its own text and the name of the pod.
type sockets struct {
	name string
	lock sync.Mutex
	open map[*websocket.Conn]bool
	ends bool
}

func (s *sockets) serve(socket *websocket.Conn) {
	s.lock.Lock()
	s.open[socket] = true
	ends := s.ends
	s.lock.Unlock()
	defer func() {
		s.lock.Lock()
		defer s.lock.Unlock()
		delete(s.open, socket)
	}()
	if ends {
		_ = websocket.Message.Send(socket, "reconnect")
	}
	for {
		var message string
		if websocket.Message.Receive(socket, &message) != nil {
			return
		}
		if websocket.Message.Send(socket, message+" "+s.name) != nil {
			return
		}
	}
}

// askToReconnect sends each client a message, as chat and game servers do, and waits until they have left. Until
// then their messages are answered.
func (s *sockets) askToReconnect(limit context.Context) {
	s.lock.Lock()
	s.ends = true
	for socket := range s.open {
		_ = websocket.Message.Send(socket, "reconnect")
	}
	s.lock.Unlock()
	for limit.Err() == nil {
		s.lock.Lock()
		left := len(s.open)
		s.lock.Unlock()
		if left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
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

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
