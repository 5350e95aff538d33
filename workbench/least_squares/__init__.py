"""Least squares revisited (Agarwal, Kakade, Karampatziakis, Song, Valiant): Algorithms
1, 2, 3."""
