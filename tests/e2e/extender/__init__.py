"""The scheduler extender, asked by a real kube-scheduler; most tests also by the simulator's."""
