"""Executing: a queue of keys, a reconciler that performs effects, the check loop, the lease."""
