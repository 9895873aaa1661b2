"""The only place that talks to an API server.

transport           bytes to a server and back: `HttpTransport`, or `InProcessTransport` for a simulated one
client              every verb of the API, over any transport; failures are `errors`
informer            a cache that follows the server and says how far it can be trusted
work_queue, leader_election, event_recorder, read_your_writes   what controllers are made of
access              which cluster, and with which credentials
codecs              bytes into objects
"""
