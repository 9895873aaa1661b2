"""Compare our rules and the simulated scheduler with a real kube-scheduler on random clusters.

`generator` makes the clusters and the pods to ask about, `oracle` asks the real scheduler, and
`rule_implementations` has the functions of plain objects that are compared with it.
"""
