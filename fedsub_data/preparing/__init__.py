"""Preparers: official files in, federations out."""
