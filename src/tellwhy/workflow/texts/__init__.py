"""From texts and labels to a trained model and explained labels."""
