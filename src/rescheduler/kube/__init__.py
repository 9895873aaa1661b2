"""The only package that talks to an API server.

transport, http_transport   send bytes to a server and return its answer
request_sender, client      every verb of the API over any transport; failures are `errors`
reflector, informer         a cache that follows the server and knows how fresh it is
work_queue, leader_election, event_recorder   building blocks of controllers
access                      which cluster to talk to, and with which credentials
codecs                      decode answers into objects
"""
