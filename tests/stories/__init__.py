"""Stories run on the simulator (`make test`) and on the real control plane (`make e2e`).

A story asks for the fixture `cluster`, or for one that is made of it (`make_sandbox`, `make_moves`,
`make_recovery`, `make_steered`). Pytest collects it once for each kind of cluster, and marks the items
`simulator` and `control_plane`. A story that carries one of these marks itself runs on that kind only, and
says why:

    @pytest.mark.control_plane(reason="the simulator has no PodSecurity")

On the simulator a story runs in virtual time. Mark one that has real sockets `real_time`, and one that runs
kubectl `kubectl`. On the control plane, a story that is marked `full` runs only in `make e2e-full`.

    cluster_kinds        the kinds, their event loops, and which of them a story runs on
    simulated_cluster    the fixture `simulated_cluster` and what it is made of
    real_cluster         the fixture `real_cluster` and what it is made of
    fixtures             what stories ask for, made of either
    sandbox, objects     a namespace with nodes of its own, and what is created there
    waiting, observer    waits for a state, and records all states on the way
    facts                what the design assumes about Kubernetes
    migrations           single moves, and everything that may happen meanwhile
    recovery             failing pods
    steering             replacements, sent to a node by the webhook or the scheduler extender
"""
