"""The code of one tile: a layer's calls, with everything that runs over filters cut to the tile's own."""

from collections.abc import Callable

from hyperplace.steps.lower.calls import (
    CONSTANT,
    DROPOUTS,
    GETITEM,
    RESHAPES,
    STORE,
    TextOf,
    arguments,
    call_text,
    constant_text,
    draws,
    is_in_place,
    is_view,
    op_name,
    out_of_place,
    refs,
    seeded,
)
from hyperplace.steps.lower.groups import grouped_convolution, grouped_norm
from hyperplace.steps.lower.norms import is_norm
from hyperplace.steps.lower.pieces import Pieces, filter_cuts, scaled
from hyperplace.steps.lower.text import Lines, Names
from hyperplace.values.graph import Call, Layer, Ref, Rows, Rule
from hyperplace.values.plan import Ranges
from hyperplace.values.ranges import count

SIZED = ("view", "reshape", "_unsafe_view")  # which name the sizes they leave
TRAINING = {"batch_norm": "training", "instance_norm": "use_input_stats"}


class TileText:
    """Write a layer's calls for some filters and rows."""

    def __init__(
        self, layer: Layer, filters: Ranges, pieces: Pieces, names: Names, *, is_first: bool, num_rows: str
    ) -> None:
        self._layer, self._filters, self._num_rows = layer, filters, num_rows
        self._pieces, self._names, self._is_first = pieces, names, is_first
        self.values: dict[str, str] = {}  # the variable of every value of the captured program
        self.kept: dict[str, str] = {}  # the variables of values that must keep theirs
        self.normed: Callable[[Call, str], str] | None = None  # the text of a batch norm that begins the calls
        self._fresh: set[str] = set()  # values nobody else has, which may be written in place

    @property
    def _is_split(self) -> bool:
        return self._filters != ((0, self._layer.num_filters),)

    def write(self, calls: tuple[Call, ...], makes: tuple[str, ...], lines: Lines) -> None:
        """Write calls that follow each other; the last one's result gets the name of what the layer makes."""
        readers = _reader_counts(calls)
        for number, call in enumerate(calls):
            if is_in_place(call) and isinstance(call.args[0], Ref) and call.args[0].is_state:
                if self._is_first:  # once per part, however many tiles it has
                    lines.add(f"if self.training:\n    {self._expression(call, lines)}")
                continue
            has_data = not self._is_state_value(Ref(call.value))
            following = calls[number + 1] if number + 1 < len(calls) else None
            is_chained = following is not None and readers.get(call.value) == 1 and Ref(call.value) in refs(following)
            is_last = following is None
            plain = makes[0] if has_data and (is_chained or is_last) else self._names(self._layer.name, call.value)
            plain = self.kept.get(call.value, plain)
            if is_last and self._layer.results:
                self._write_results(call, makes, lines)
                return
            lines.let(plain, self._expression(call, lines))
            self.values[call.value] = plain
            if not is_view(call) or refs(call)[0].name in self._fresh:
                self._fresh.add(call.value)

    def write_region(self, makes: tuple[str, ...], lines: Lines) -> None:
        """Write a layer's calls just as the model makes them: they write only into memory of the layer's own."""
        for call in self._layer.calls:
            self._fresh.add(call.value)
            expression = self._expression(call, lines)
            if op_name(call) == STORE:
                lines.add(expression)
                continue
            self.values[call.value] = self._names(self._layer.name, call.value)
            lines.let(self.values[call.value], expression, call.within)
        for variable, value in zip(makes, self._layer.result_values, strict=False):
            lines.let(variable, self.values[value])

    def _write_results(self, call: Call, makes: tuple[str, ...], lines: Lines) -> None:
        """Write a call with several results, of which some are read."""
        results = self._names(self._layer.name, "results")
        lines.let(results, self._expression(call, lines))
        for variable, result in zip(makes, self._layer.results, strict=True):
            lines.let(variable, f"{results}[{result}]")

    def _expression(self, call: Call, lines: Lines) -> str:
        name = op_name(call).rstrip("_")
        if name in SPECIAL:
            return SPECIAL[name](call, self._text(call))
        is_anchor = call is self._layer.calls[self._layer.num_anchor_calls - 1]
        if self.normed and is_norm(call):
            return self.normed(call, self.values[call.args[0].name])
        if name in DROPOUTS:
            return self._dropout(call, name)
        if name in RESHAPES and (call.has_rows or name in SIZED):
            return f"{self._text(call)(refs(call)[0])}.reshape({self._shape(call)})"
        if name == "instance_norm" and self._pieces.has_copies(self._layer):
            return self._instance_norm(call)
        if is_anchor and self._is_split and self._layer.rule is Rule.GROUPED:
            x = self.values[self._layer.operands[0].value]
            if name != "group_norm":
                return grouped_convolution(self._layer, call, self._filters, x, self._pieces)
            variable = self._names(self._layer.name, "normed")
            return grouped_norm(
                self._layer, call, self._filters, x, self._pieces, assign=lambda text: lines.shared(variable, text)
            )
        if draws(call):
            changes = self._changes(call, name) | {"generator": "self.generator"}
            return call_text(seeded(call), call, self._text(call), changes)
        return call_text(self._op(call), call, self._text(call), self._changes(call, name))

    def _op(self, call: Call) -> str:
        """Return the operation, out of place where the tensor it would write into is somebody else's too."""
        first = call.args[0] if call.args else None
        if is_in_place(call) and isinstance(first, Ref) and not first.is_state and first.name not in self._fresh:
            return out_of_place(call)
        return call.op

    def _changes(self, call: Call, name: str) -> dict[str, str]:
        """Return the arguments that differ from the captured: the mode, the rows, and a depthwise layer's groups."""
        named = arguments(call)
        changed = {}
        flag = TRAINING.get(name, "training" if "training" in named else "train")
        if named.get(flag) is True and (name not in TRAINING or named.get("running_mean") is not None):
            changed[flag] = "self.training"
        if self._is_split and name.startswith("conv") and self._layer.rule is Rule.CHANNELWISE:
            changed["groups"] = str(count(self._filters))
        return changed

    def _instance_norm(self, call: Call) -> str:
        """Return the norm, scaled afterwards: a tile may have no rows, and then torch takes no weights."""
        text_of, named = self._text(call), arguments(call)
        changed = dict.fromkeys(["weight", "bias"], "None")
        text, ones = call_text(self._op(call), call, text_of, changed), ", 1" * (len(call.shape) - 2)
        for name, sign in (("weight", "*"), ("bias", "+")):
            if isinstance(named.get(name), Ref):
                text = f"{text} {sign} {text_of(named[name])}.reshape(-1{ones})"
        return text

    def _dropout(self, call: Call, name: str) -> str:
        named = arguments(call)
        chance = named["p"]
        return f"runtime.{name}({self._text(call)(refs(call)[0])}, {float(chance)!r}, self)"

    def _shape(self, call: Call) -> str:
        """Return the sizes a reshape leaves, for any number of rows and the part's own filters."""
        if not call.has_rows:
            (sizes,) = call.args[1:]
            return ", ".join(constant_text(size, self._text(call)) for size in sizes)
        channels = call.shape[1]
        if self._is_split and not self._is_state_value(Ref(call.value)):
            channels = channels // self._layer.num_filters * count(self._filters)
        first = self._num_rows if 0 in call.shape else "-1"
        return ", ".join([first, *map(str, (channels, *call.shape[2:]))])

    def _text(self, call: Call) -> TextOf:
        by_ref = {value: name for name, value in arguments(call).items() if isinstance(value, Ref)}
        is_cut = self._is_split or self._pieces.has_copies(self._layer)
        factor = call.shape[1] // self._layer.num_filters if is_cut and len(call.shape) > 1 else 1
        own = scaled(self._filters, factor)
        shapes = {p.name: p.shape for p in self._layer.parameters}
        computed = {c.value: c.shape for c in self._layer.calls}
        has_data = not self._is_state_value(Ref(call.value))

        def text_of(ref: Ref | Rows) -> str:
            if isinstance(ref, Rows):
                return ref.text(self._num_rows)
            if ref.is_state:
                # What is computed from state alone is computed whole, and cut where it is used.
                cuts = filter_cuts(call, by_ref.get(ref, ""), shapes[ref.name], own) if is_cut and has_data else {}
                return self._pieces.text(self._layer, ref.name, cuts)
            text = self.values[ref.name]
            if self._is_split and has_data and self._is_state_value(ref):
                for dim, ranges in filter_cuts(call, by_ref.get(ref, ""), computed[ref.name], own).items():
                    cut = [f"{text}.narrow({dim}, {start}, {stop - start})" for start, stop in ranges]
                    text = cut[0] if len(cut) == 1 else f"torch.cat(({', '.join(cut)}), {dim})"
            return text

        return text_of

    def _is_state_value(self, ref: Ref) -> bool:
        """Say whether a value is computed from parameters and constants alone."""
        calls = {call.value: call for call in self._layer.calls}
        if ref.name not in calls:
            return False
        return all(inner.is_state or self._is_state_value(inner) for inner in refs(calls[ref.name]))


def _item_text(call: Call, text_of: TextOf) -> str:
    return f"{text_of(call.args[0])}[{call.args[1]}]"


def _constant_text(call: Call, text_of: TextOf) -> str:
    values, shape, dtype = call.args
    return f'runtime.constant("{" ".join(map(str, values))}", {shape!r}, {dtype}, self)'


def _store_text(call: Call, text_of: TextOf) -> str:
    buffer, value = call.args
    return f"runtime.store(self, {text_of(buffer)}, {text_of(value)})"


SPECIAL = {GETITEM: _item_text, CONSTANT: _constant_text, STORE: _store_text}


def _reader_counts(calls: tuple[Call, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for call in calls:
        for ref in refs(call):
            counts[ref.name] = counts.get(ref.name, 0) + 1
    return counts
