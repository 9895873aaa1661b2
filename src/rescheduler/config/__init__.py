"""The configuration: from a `KubeSchedulerConfiguration` file to a frozen `Policy`.

config_document    bytes -> plain data, with the line of every value
scheduler_file     which part of the file is ours and what is ignored; a configuration as a file
config_loader      the file -> `Configuration`, or all faults at once (the only user of pydantic)
config_validation  faults, settings that contradict each other, known strategies

policy             what the rest of the program reads: frozen values, each described where it is declared
policy_blocks      blocks of the policy with rules of their own: windows, cost, prometheus
setting_rules      what a single value may be
settings_schema    reads names, types, defaults and descriptions off `policy`
"""
