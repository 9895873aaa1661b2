"""The checks that protect pods from being moved: one small function each."""
