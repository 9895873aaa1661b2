"""Measures what clients of a Service lose while its pods are removed (`make traffic`)."""
