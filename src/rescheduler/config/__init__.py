"""The configuration: from a `KubeSchedulerConfiguration` file to a frozen `Policy`.

document        bytes → plain data, with the line of every value
scheduler_file  which part of the file is ours; what is ignored, and why
arguments       our part → Policy, or all faults at once (the only user of pydantic)
consistency     what no single value can tell
loading         the above in order: `load_file`, `load_content`

policy          what the rest of the program reads: plain frozen values, and where each is described
                (with `windows` and `prometheus`, whose settings have rules of their own)
values          what single values may be
shape           reads names, types, defaults and meanings off `policy`
rendering       a configuration as a file again; the commented defaults
reference       the table in docs/configuration.md
"""
