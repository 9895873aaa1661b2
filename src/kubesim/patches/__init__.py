"""Patches: apply a patch to an object and return the new object."""
