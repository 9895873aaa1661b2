"""The move of one pod: a pure state machine. `controller` performs what it decides."""
