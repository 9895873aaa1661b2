"""What `kubectl get` shows: the API server, not kubectl, decides on columns and cells.

Pure: objects and the time in, a `meta.k8s.io/v1 Table` out. One small file per family of kinds; `table.py`
puts them together.
"""

from kubesim.printers.table_printer import table

__all__ = ["table"]
