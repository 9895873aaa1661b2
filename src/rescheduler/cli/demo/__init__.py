"""The demo: a simulated cluster with a story of two minutes, and the real daemon at work in it.

story       the cluster and what happens to it (story.yaml), the policy, and what should come of each chapter
playing     server, webhook and daemon, put together
witness     watches from outside, as a client: readiness, budgets, moves
screen      the live view of it; lines where nothing can be redrawn
"""
