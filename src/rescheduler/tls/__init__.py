"""Certificates: made, read, and shown. Who trusts whom, and for how long, is decided elsewhere."""
