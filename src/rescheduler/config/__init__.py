"""The configuration: from a `KubeSchedulerConfiguration` file to a frozen `Policy`.

policy             the settings: frozen values, each documented where it is declared
policy_blocks      blocks of settings; names, types, defaults and descriptions of all settings
move_limits        windows, moves per hour, and the annotations that restrict both
profiles           several profiles, each with its own selectors, strategies and limits
setting_rules      rules for single values

config_document    bytes → plain data, with the line of every value
scheduler_file     finds our settings in the file, and writes a configuration as a file
config_validation  faults, contradicting settings, known strategies
config_loader      a file → `Configuration`, or all faults (the only importer of pydantic at load time)
"""
