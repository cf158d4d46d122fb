"""The one server: the page for analysts (`tellwhy app`) and the service (`tellwhy serve`)."""
