"""What can be done with an explanation: choosing and joining its parts, shap's form, a table in notebooks."""
