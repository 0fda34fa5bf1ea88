"""One capture at a time, which leaves nothing behind."""

import linecache
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch.fx.experimental.symbolic_shapes import ShapeEnv

# torch.export, a model's mode and what is kept quiet meanwhile are the whole process's; and while a model is captured,
# its parameters are others, so that whoever reads them takes the lock too.
_LOCK = threading.RLock()


@contextmanager
def alone() -> Iterator[None]:
    """Keep other threads' captures out, and free afterwards what torch.export keeps of every model for ever.

    That is the last traced graph, by a global dict, the text of all graphs, for tracebacks, and what operations do to
    shapes: 30 KiB and more each.
    """
    with _LOCK:
        lines_before = set(linecache.cache)
        try:
            with _emptied_caches():
                yield
        finally:
            for name in set(linecache.cache) - lines_before:
                if name.startswith("<eval_with_key>"):
                    linecache.cache.pop(name, None)
                    _texts().pop(name, None)
            _traced().clear()


@contextmanager
def _emptied_caches() -> Iterator[None]:
    """Empty, afterwards, what symbols of sizes remember of operations and guards.

    It leads back to them through memory of C++, which Python's collector does not see.
    """
    made: list[Any] = []
    make: Any = ShapeEnv.__init__

    def noted(env: ShapeEnv, *args: Any, **kwargs: Any) -> None:
        make(env, *args, **kwargs)
        made.append(env)

    try:
        with mock.patch.object(ShapeEnv, "__init__", noted):
            yield
    finally:
        for env in made:
            vars(env).clear()


def _texts() -> dict[str, Any]:
    """Return where torch keeps the text of graphs; not part of its interface, so it may be gone in another version."""
    from torch.fx import graph_module

    texts: dict[str, Any] = getattr(getattr(graph_module, "_loader", None), "eval_cache", {})
    return texts


def _traced() -> dict[int, Any]:
    from torch.fx.experimental import proxy_tensor

    traced: dict[int, Any] = getattr(proxy_tensor, "_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT", {})
    return traced
