package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// send makes one request and returns the name of who answered.
type send func() (string, error)

// sender returns what makes requests in one way. None of them repeats a request that may have been processed.
func sender(protocol, target string, keepAlive bool, connections int, timeout time.Duration) (send, error) {
	switch protocol {
	case "http1", "http2":
		return httpSender(target, protocol == "http2", keepAlive, timeout), nil
	case "grpc":
		return grpcSender(target, connections, timeout)
	case "websocket":
		return websocketSender(target, connections, timeout)
	}
	return nil, fmt.Errorf("unknown protocol %q", protocol)
}

func httpSender(target string, http2, keepAlive bool, timeout time.Duration) send {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{
		Protocols:           protocols,
		DisableKeepAlives:   !keepAlive && !http2,
		MaxIdleConnsPerHost: 1000,
		DialContext:         (&net.Dialer{Timeout: timeout}).DialContext,
	}}
	return func() (string, error) {
		answer, err := client.Get(target)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", answer.StatusCode)
		}
		return strings.TrimSpace(string(body)), err
	}
}

// grpcSender asks the health service. A call waits for a connection, as clients that care configure it.
func grpcSender(target string, connections int, timeout time.Duration) (send, error) {
	var clients []healthpb.HealthClient
	for range connections {
		connection, err := grpc.NewClient("passthrough:///"+target,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			return nil, err
		}
		clients = append(clients, healthpb.NewHealthClient(connection))
	}
	var number atomic.Uint64
	return func() (string, error) {
		call, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		var header metadata.MD
		client := clients[number.Add(1)%uint64(len(clients))]
		answer, err := client.Check(call, &healthpb.HealthCheckRequest{}, grpc.Header(&header))
		if err == nil && answer.Status != healthpb.HealthCheckResponse_SERVING {
			err = fmt.Errorf("status %s", answer.Status)
		}
		return strings.Join(header.Get("pod"), ","), err
	}, nil
}

// websocketSender sends messages over a few connections. A client that the server asks to reconnect opens another
// connection first, and closes the old one when its last answer is there.
func websocketSender(target string, connections int, timeout time.Duration) (send, error) {
	at, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	clients := make([]*socketClient, connections)
	for each := range clients {
		clients[each] = &socketClient{target: "ws://" + at.Host + "/ws", timeout: timeout}
	}
	var number atomic.Uint64
	return func() (string, error) {
		id := number.Add(1)
		return clients[id%uint64(len(clients))].ask(strconv.FormatUint(id, 10))
	}, nil
}

var (
	errClosed  = errors.New("websocket closed before the answer")
	errLeaving = errors.New("this connection takes no more messages")
)

// socketClient has one connection at a time for new messages.
type socketClient struct {
	target  string
	timeout time.Duration
	lock    sync.Mutex
	current *socket
}

type socket struct {
	lock    sync.Mutex // of what follows, and of writing
	on      *websocket.Conn
	waiting map[string]chan string
	leaving bool
	dead    bool
}

func (c *socketClient) ask(id string) (string, error) {
	deadline := time.After(c.timeout)
	answer := make(chan string, 1)
	if err := c.transmit(id, answer); err != nil {
		return "", err
	}
	select {
	case name, ok := <-answer:
		if !ok {
			return "", errClosed
		}
		return name, nil
	case <-deadline:
		return "", errors.New("timeout")
	}
}

// transmit sends a message on a connection that stays, which it opens if there is none.
func (c *socketClient) transmit(id string, answer chan string) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	for {
		if c.current != nil {
			if err := c.current.write(id, answer); !errors.Is(err, errLeaving) {
				return err
			}
		}
		opened, err := c.dial()
		if err != nil {
			return err
		}
		c.current = opened
	}
}

func (c *socketClient) dial() (*socket, error) {
	config, err := websocket.NewConfig(c.target, "http://localhost/")
	if err != nil {
		return nil, err
	}
	config.Dialer = &net.Dialer{Timeout: c.timeout}
	connection, err := config.DialContext(context.Background())
	if err != nil {
		return nil, err
	}
	opened := &socket{on: connection, waiting: map[string]chan string{}}
	go opened.read()
	return opened, nil
}

func (s *socket) write(id string, answer chan string) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.leaving || s.dead {
		return errLeaving
	}
	s.waiting[id] = answer
	if err := websocket.Message.Send(s.on, id); err != nil {
		delete(s.waiting, id)
		return err
	}
	return nil
}

func (s *socket) read() {
	defer s.on.Close()
	for {
		var message string
		err := websocket.Message.Receive(s.on, &message)
		id, name, _ := strings.Cut(message, " ")
		if s.take(err, id, name) {
			return
		}
	}
}

// take hands an answer to who waits for it, and says whether the connection is done.
func (s *socket) take(err error, id, name string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	switch {
	case err != nil:
		s.dead = true
		for _, answer := range s.waiting {
			close(answer)
		}
		s.waiting = map[string]chan string{}
	case id == "reconnect":
		s.leaving = true
	default:
		if answer := s.waiting[id]; answer != nil {
			answer <- name
			delete(s.waiting, id)
		}
	}
	return s.dead || (s.leaving && len(s.waiting) == 0)
}
