"""The `PodMigration` type and CRD, the contents of our ConfigMaps, and the names that other programs see."""
