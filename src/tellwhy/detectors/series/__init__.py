"""Events in series: what was never seen before, what changed, and how many false ones to expect."""
