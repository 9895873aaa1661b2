"""Failing pods: what counts as failing, how often a pod may be rescheduled, and which attempts failed.

pod and node ──▶ failure signs ──────┐
annotations  ──▶ retry allowance ────┼──▶ recovery decision
ledger       ──▶ replica lineages ───┘
"""
