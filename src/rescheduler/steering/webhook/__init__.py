"""The admission webhooks: they steer new pods, refuse surplus pods, and hold evictions by other clients."""
