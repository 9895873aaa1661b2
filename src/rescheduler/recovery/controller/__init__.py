"""Recover failing pods in a running cluster."""
