"""Rounds of random disruptions on a real control plane, checked by an observer that reads only the API."""
