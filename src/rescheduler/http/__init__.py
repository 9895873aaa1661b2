"""Serve HTTP, with limits for clients."""
