"""The same scenarios and the same promises for every strategy, and for the planner as a whole."""
