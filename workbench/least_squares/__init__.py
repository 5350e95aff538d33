"""Least squares revisited (Agarwal, Kakade, Karampatziakis, Song, Valiant)."""
