"""Bytes of the API server into records: protobuf where a server offers it, JSON otherwise.

`codec.py` says what the client may rely on. `pods.PODS` and `nodes.NODES` read both encodings into the
same records; `generic.OBJECTS` and `generic.typed` read everything else from JSON.
"""
