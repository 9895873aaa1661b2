"""What replacements of pods should know: where to go, and where not. Pure.

What other programs ask us: the webhook that steers replacements.
"""
