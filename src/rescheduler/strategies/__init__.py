"""What could be better: each strategy proposes moves, and never acts."""
