"""What other programs ask us: the webhook that steers replacements."""
