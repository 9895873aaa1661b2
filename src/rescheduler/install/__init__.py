"""The objects that a cluster needs before pods can be moved in it, and how they are installed and removed."""
