"""Pods that keep failing where they are: what counts as failing, how often they may go elsewhere, what is remembered. Pure."""
