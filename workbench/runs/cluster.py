"""The connection of a sweep to a Dask cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def connected(address: str) -> Iterator:
    """Yield a ``distributed.Client`` of the scheduler at an address such as tcp://node1:8786.

    Raises
    ------
    ValueError
        Without the extra `cluster`, a scheduler there, or a worker.
    """
    try:
        from distributed import Client, comm
    except ImportError:
        raise ValueError("cluster: needs the extra: pip install 'workbench-mc[cluster]'") from None
    try:
        # A socket first, because a client that finds no scheduler complains at length.
        socket.create_connection(comm.get_address_host_port(address), timeout=10).close()
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"cluster: no scheduler answers at {address!r}: {error}") from None
    with client:
        if not client.nthreads():
            raise ValueError(f"cluster: the scheduler at {address!r} has no workers")
        yield client
