"""Planning against the real control plane."""
