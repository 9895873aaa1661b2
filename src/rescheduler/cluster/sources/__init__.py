"""Read the state of a cluster from an API server or a file, and save it to a file.

cluster_kinds     the kinds that matter, how each is read, and `ClusterReading`: what a read returned
live_source       a live cluster, read once → `ClusterReading`; and whether its webhook answers
saved_source      a file → `ClusterReading`, with every error in it
watched_objects   one informer per kind for the controllers
watched_cluster   a live cluster, kept up to date → snapshots
usage_sources     usage from Prometheus (`metrics_api`: from metrics.k8s.io)

object_fields     the fields of each kind that matter, and their types (`pod_fields`: those of pods)
cluster_export    a live cluster or a file → a file
anonymizer        replaces all names (`pseudonyms`: the replacements, and the words that stay)
"""
