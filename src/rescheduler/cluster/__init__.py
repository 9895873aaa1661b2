"""The knowledge about a cluster: records, the state that takes changes, and frozen snapshots.

sources/           read a live or saved cluster; the only part with input and output
codecs/            decode pods and nodes, JSON or protobuf, into records
*_record(s).py     the fields that are kept of objects of each kind
cluster_state.py   takes changes of single objects, in any order; `freeze` makes a `Snapshot`
snapshot*.py       the frozen tables, and the rows and columns that they are made from
*_usage.py, usage_*.py  readings of usage, their averages, and those that are used as load
"""
