"""Networks as people write them: outputs in dicts and tuples, autoencoders, tokens, several inputs."""
