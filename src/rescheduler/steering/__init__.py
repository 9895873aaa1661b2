"""Steer the replacements of pods: where a new pod should go, and which nodes it must avoid.

`intents` is pure. `webhook/` answers API servers, `extender_verbs` answers schedulers.
"""
