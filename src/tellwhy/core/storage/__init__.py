"""The time, and compiled loops that are kept between processes."""
