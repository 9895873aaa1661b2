"""Strategies propose moves that improve the cluster, and never act."""
