"""What checks the exercises: one file per series of lessons; `exercise` is what they share."""
