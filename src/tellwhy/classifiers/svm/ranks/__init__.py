"""Multi-class SVMs over several processes, with MPI."""
