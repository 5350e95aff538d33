"""MEMOIR, extreme classification with inexact margin (Belyy, Sholokhov): one file per
method."""
