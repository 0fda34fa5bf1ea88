"""Interrupt a trainer's caller at any line or bytecode, and look what is left: used by the tests and by the sweep."""

import gc
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from handmade import ZIGZAG, batches, squared, state_of

from hyperplace.errors import TrainingError
from hyperplace.runtime import RunSettings, Trainer, Training

LIMIT_S = 5.0
OTHER = state_of(ZIGZAG, seed=7)
MODES = {
    "sync": RunSettings("sync", in_flight=2, micro_batches=2),
    "async-1": RunSettings(in_flight=1),
    "async-4": RunSettings(in_flight=4),
}


def make(mode: str) -> Trainer:
    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9))
    return Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=squared, settings=MODES[mode])


def train(trainer: Trainer) -> None:
    """Make every kind of call."""
    first, second, third = batches(3)
    loss = trainer.step(*first)
    trainer.step(*second)
    loss.item()
    trainer.predict(first[0])
    trainer.step(*third)
    trainer.state_dict()
    trainer.load_state_dict(OTHER)
    trainer.step(*first)
    trainer.flush()
    trainer.moved_bytes()


class Plain:
    """The plain loop: weights and momentum."""

    def __init__(self) -> None:
        self.weights = {name: tensor.clone().requires_grad_() for name, tensor in state_of(ZIGZAG).items()}
        self.optimizer = torch.optim.SGD(self.weights.values(), lr=0.05, momentum=0.9)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        u = x @ self.weights["a"]
        squared((u + torch.tanh(u @ self.weights["b"])) @ self.weights["c"], y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def load(self, state: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in state.items():
                self.weights[name].copy_(tensor)

    def take(self, trainer: Trainer) -> None:
        """Go on from where a trainer is."""
        self.load(trainer.state_dict())
        for rank in trainer.ranks:
            for name, parameter in rank.weights.parameters.items():
                known = rank.weights.optimizer.state[parameter].get("momentum_buffer")
                own = self.weights[rank.weights.owned[name].name]
                self.optimizer.state[own] = {"momentum_buffer": None if known is None else known.clone()}

    @property
    def state(self) -> dict[str, torch.Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.weights.items()}


def plain_states() -> list[dict[str, torch.Tensor]]:
    """Return the weights before and after everything that `train` writes, in a plain loop."""
    plain = Plain()
    states = [plain.state]
    for x, y in batches(3):
        plain.step(x, y)
        states.append(plain.state)
    plain.load(OTHER)
    states.append(plain.state)
    plain.step(*batches(1)[0])
    return [*states, plain.state]


def async_states() -> list[dict[str, torch.Tensor]]:
    """Return the weights as each part has them after everything that it writes, with several mini-batches in flight."""
    trainer = make("async-4")
    histories: list[list[dict[str, torch.Tensor]]] = [[] for _ in trainer.ranks]
    for rank, history in zip(trainer.ranks, histories, strict=True):
        _record(rank.weights, history)
    with trainer:
        train(trainer)
    return [{**one, **other} for one, other in zip(*histories, strict=True)]


def _record(weights: Any, history: list[dict[str, torch.Tensor]]) -> None:
    def note() -> None:
        history.append({weights.owned[name].name: p.detach().clone() for name, p in weights.parameters.items()})

    def noted(method: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any) -> None:
            method(*args)
            note()

        return run

    note()
    weights.update, weights.load = noted(weights.update), noted(weights.load)


@dataclass
class Interrupter:
    """Raise KeyboardInterrupt at one point of what the caller runs; counts the points."""

    at: int
    opcodes: bool
    count: int = -1
    where: str = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if "/torch/" in name or name == __file__:
            return None
        frame.f_trace_opcodes = self.opcodes
        if event == ("opcode" if self.opcodes else "line"):
            self.count += 1
            if self.count == self.at:
                self.where = f"{name}:{frame.f_lineno}, instruction {frame.f_lasti}"
                raise KeyboardInterrupt
        return self


def interrupted(mode: str, at: int, *, opcodes: bool) -> tuple[Trainer, str]:
    """Return a trainer whose caller was interrupted at a point, and where; nowhere, if there is no such point."""
    trainer = make(mode)
    return trainer, interrupt(lambda: train(trainer), at, opcodes=opcodes)


def interrupt(call: Callable[[], object], at: int, *, opcodes: bool = False) -> str:
    """Interrupt a call at a point, and return where; nowhere, if there is no such point."""
    interrupter = Interrupter(at, opcodes)
    before = sys.gettrace()

    gc.disable()  # an interrupt within a finalizer of an earlier trainer would go nowhere
    try:
        sys.settrace(interrupter)
        call()
    except KeyboardInterrupt:
        return interrupter.where
    finally:
        sys.settrace(before)
        gc.enable()
    return ""


def fault_after(mode: str, trainer: Trainer, states: list[dict[str, torch.Tensor]]) -> str:
    """Return what is wrong with an interrupted trainer: a hang, weights of no whole number of updates; or nothing."""
    answer: list[str] = []
    thread = threading.Thread(target=lambda: answer.append(_fault(mode, trainer, states)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return answer[0] if answer else "it hangs, or fails"


def _fault(mode: str, trainer: Trainer, states: list[dict[str, torch.Tensor]]) -> str:
    before = _position(mode, trainer.state_dict(), states)
    if before is None:
        return "its weights are mixed"
    plain = Plain()
    plain.take(trainer)
    try:
        trainer.step(*batches(1)[0])
        trainer.flush()
        plain.step(*batches(1)[0])
    except TrainingError as fault:
        if "interrupted within" not in str(fault):
            return str(fault)
    if not same(trainer.state_dict(), plain.state):
        return f"its weights, those after {before} writes, went on to something else"
    trainer.close()
    return "threads are left" if any(t.is_alive() for t in trainer._crew._threads) else ""


def _position(
    mode: str, found: dict[str, torch.Tensor], states: list[dict[str, torch.Tensor]]
) -> tuple[int, ...] | None:
    """Return after how many writes the weights are these; of every part by itself with several in flight."""
    groups = (("a", "c"), ("b",)) if mode == "async-4" else (("a", "b", "c"),)
    places = [_place(names, found, states) for names in groups]
    return None if None in places else tuple(place for place in places if place is not None)


def _place(names: tuple[str, ...], found: dict[str, torch.Tensor], states: list[dict[str, torch.Tensor]]) -> int | None:
    for number, state in enumerate(states):
        if same({name: found[name] for name in names}, state):
            return number
    return None


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return all(torch.allclose(tensor, wanted[name], rtol=0, atol=1e-12) for name, tensor in found.items())


def states_of(mode: str) -> list[dict[str, torch.Tensor]]:
    """Return the weights that an interrupted run may have."""
    return async_states() if mode == "async-4" else plain_states()
