"""Rounds of random disruptions on a real control plane, judged by an observer that reads only the API."""
