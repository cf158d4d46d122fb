"""Ranks that are threads of this process: the few calls of mpi4py that the solvers make, slow and obvious."""

import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np


def rest():
    """Let the other threads go on; nothing has come yet."""
    time.sleep(1e-5)
    return False


class Done:
    def Test(self):
        return True


class Awaited:
    def __init__(self, comm, into, source, tag):
        self.comm, self.into, self.key, self.done = comm, into, (source, comm.rank, tag), False

    def Test(self):
        if not self.done and self.comm.boxes[self.key]:
            sent = self.comm.boxes[self.key].pop(0)
            assert sent.dtype == self.into.dtype
            assert sent.size == self.into.size
            self.into.reshape(-1)[:] = sent.reshape(-1)
            self.done = True
        return self.done or rest()


class Status:
    def Get_count(self, _):
        return self.n_bytes


class ThreadRank:
    def __init__(self, rank, size, boxes, table, barrier):
        self.rank, self.size, self.boxes, self.table, self.barrier = rank, size, boxes, table, barrier

    def Isend(self, values, dest, tag):
        self.boxes[self.rank, dest, tag].append(values.copy())
        return Done()

    def Irecv(self, into, source, tag):
        return Awaited(self, into, source, tag)

    def Iprobe(self, source, tag, status):
        waiting = self.boxes[source, self.rank, tag]
        if waiting:
            status.n_bytes = waiting[0].nbytes
        return bool(waiting) or rest()

    def Allgather(self, mine, out):
        self.table[self.rank] = mine.copy()
        self.barrier.wait(60)
        np.stack(self.table, out=out.reshape(self.size, *mine.shape))
        self.barrier.wait(60)

    def Allreduce(self, mine, out):
        every = np.empty((self.size, *mine.shape), dtype=mine.dtype)
        self.Allgather(mine, every)
        out[...] = every.sum(axis=0)


def in_ranks(size, work, monkeypatch):
    """Results of work(comm) of all ranks."""
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=SimpleNamespace(Status=Status, BYTE=1)))
    boxes, table, barrier = defaultdict(list), [None] * size, threading.Barrier(size)
    with ThreadPoolExecutor(size) as threads:
        return list(
            threads.map(work, [ThreadRank(rank, size, boxes, table, barrier) for rank in range(size)])
        )
