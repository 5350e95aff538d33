"""The checks of the exercises: one file per series of lessons; all of them use
`exercise`."""
