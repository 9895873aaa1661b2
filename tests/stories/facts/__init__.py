"""The facts about Kubernetes that the design relies on.

    adopt               the handover itself, step by step; runs on any control plane
    test_adopt          it moves pods of Deployments and ReplicaSets without downtime, whatever the budget
    test_adopt_…        bystanders who evict, refused copies, owners and the garbage collector, the scale
                        that budgets ask for, adoption that comes late
    test_wrong_ways     what looks simpler and is not
    test_workloads      what Deployments make of attempts to steer their pods
    test_eviction       the answers of the Eviction API, to the letter
    test_scheduling     extenders, topology labels, new nodes, resize in place
    test_autoscaling    an autoscaler counts the copy

Not here: the time that large clusters take to read (a benchmark).
"""
