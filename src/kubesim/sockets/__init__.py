"""The simulated API server over real sockets, on loopback only."""
