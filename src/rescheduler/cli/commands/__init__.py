"""The commands: one module per command, or per family of commands. `rescheduler.cli` lists them."""
