"""The cluster at one moment, in columns: what every decision is made from."""
