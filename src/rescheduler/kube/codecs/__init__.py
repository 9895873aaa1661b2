"""Decode what the API server sends: protobuf where a server offers it, JSON otherwise.

`codec.py` is the contract with the client. `NegotiatedCodec` reads both encodings into the same records;
`OBJECT_CODEC` reads any object from JSON into a dictionary.
"""
