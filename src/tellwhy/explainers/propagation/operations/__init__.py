"""Operations of a network: the record of each, what kind it is, and the maths of those that are linear."""
