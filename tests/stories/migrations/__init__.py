"""Migrations by the real controller: on the real control plane, and the same tests on the simulator."""
