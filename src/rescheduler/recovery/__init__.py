"""Pods that keep failing where they are: what counts as failing, how often they may move, what is remembered.

pod, its node ──▶ trouble ─┐
annotations ──▶ allowance ─┼─▶ decision: move, restart, note, remove, or leave alone
ledger ──▶ lines ──────────┘
"""
