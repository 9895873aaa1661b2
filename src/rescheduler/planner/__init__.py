"""The planner turns proposals into a plan: who may move, which moves are made, in which order, and why."""
