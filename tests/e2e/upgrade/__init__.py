"""Upgrades from the previous version, whose own code runs from the history of this repository."""
