"""What replacements of pods should know: where to go, and where not. Pure."""
