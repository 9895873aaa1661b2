"""The controller of PodMigrations: work queue, reconciler, revalidation and effects."""
