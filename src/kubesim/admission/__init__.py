"""What happens to an object between the request and the store: defaults, rules, webhooks."""
