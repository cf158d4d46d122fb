"""Sentences for people, made from fields."""
