"""What has to be in a cluster before pods can be moved in it: as objects, and how they get there."""
