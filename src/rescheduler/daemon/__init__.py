"""Wire everything together: leader, periodic checks, halts, drains, status, metrics and notifications."""
