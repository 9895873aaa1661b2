"""Requests in protobuf: kubectl and other Go programs send built-in kinds that way.

Only reading is offered; answers are JSON, which every such client takes as its second choice.
"""

from rescheduler.simulator.protobuf.reading import PROTOBUF, UnreadableError, read_object

__all__ = ["PROTOBUF", "UnreadableError", "read_object"]
