"""The webhook that steers replacements, called by a real API server; most tests also by the simulator's."""
