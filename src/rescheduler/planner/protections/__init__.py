"""What protects pods from being moved: one small question each."""
