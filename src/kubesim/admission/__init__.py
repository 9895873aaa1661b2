"""Admission: what happens to an object between the request and the store."""
