"""Replacements are told where to go: by the webhook or by the scheduler extender.

Told once, and played with each of them, on a real control plane and on the simulator.
"""
