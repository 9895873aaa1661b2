"""How one pod moves: a state machine, events in, effects out. Pure: time is an argument."""
