"""Commands about models that are fitted once, and rows that are explained by them."""
