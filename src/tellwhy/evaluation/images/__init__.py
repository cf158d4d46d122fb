"""Explanations of pictures and series through their patches, and maps of where they are odd, measured."""
