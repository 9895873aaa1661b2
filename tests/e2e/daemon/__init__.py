"""`rescheduler run` as it is started in a cluster: real processes on the real control plane."""
