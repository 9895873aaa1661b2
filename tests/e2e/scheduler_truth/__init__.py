"""Random clusters, a real kube-scheduler that is asked about them, and judges that must say the same.

`generator` makes the clusters and the pods to ask about, `oracle` asks the real scheduler, `judges` are
those who are compared with it: functions of plain objects, so that another one is a line more.
"""
