"""Recovers failing pods in a running cluster."""
