"""The simulated API server and its outbound calls over real sockets."""
