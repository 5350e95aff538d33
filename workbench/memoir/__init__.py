"""MEMOIR, extreme classification with inexact margin (Belyy, Sholokhov)."""
