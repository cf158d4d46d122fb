"""The page on an explained network."""
