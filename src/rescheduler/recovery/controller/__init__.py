"""Pods that keep failing: tries put on record, what is no move done, and all of it told."""
