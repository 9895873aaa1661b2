"""Replacements are sent to a node by the webhook or by the scheduler extender.

Each story runs with both of them, on the simulator and on a real control plane.
"""
