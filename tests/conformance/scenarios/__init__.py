"""One file per subject; see `tests.conformance.scenario`."""
