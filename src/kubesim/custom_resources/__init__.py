"""Kinds that a CustomResourceDefinition adds: their names, their schema, their rules."""
