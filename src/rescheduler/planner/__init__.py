"""Turn proposals into a plan: which pods may move, which moves are made, in which order, and why."""
