"""rescheduler decides which pods should run elsewhere, and moves them make-before-break."""
