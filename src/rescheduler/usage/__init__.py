"""What pods and nodes really use, as far as somebody measures it.

    reading      the reader that `usageSource` asks for: asks, and never fails with more than a sentence
    metrics_api  … over `metrics.k8s.io`
    prometheus   … over Prometheus' HTTP API

    readings     what was measured, or why nothing was
    one_check    all of the below, in order: what came back → what counts
    overhead     what a node uses beside its pods
    smoothing    one spike moves nothing: an average over time, its state passed in and returned
    trust        what is fresh enough to count; what is not is said, and requests count instead
    heat         how many checks in a row a node was too hot

Only the first three know a network; the rest is pure, and time is an argument.
"""
