"""Tables for `kubectl get`: the API server decides on columns and cells.

Pure: objects and the time are arguments.
"""

from kubesim.printers.table_printer import table

__all__ = ["table"]
