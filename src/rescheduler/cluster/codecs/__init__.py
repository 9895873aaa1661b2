"""Decode pods and nodes, from JSON or protobuf, into records."""
