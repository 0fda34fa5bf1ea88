"""The code of one layer on one part: its calls, with everything that runs over filters cut to the part's own."""

from collections.abc import Callable
from itertools import pairwise

from hyperplace.steps.generate.calls import (
    DROPOUTS,
    FACTORIES,
    RESHAPES,
    argument_names,
    arguments,
    call_text,
    is_in_place,
    op_name,
    out_of_place,
)
from hyperplace.steps.generate.groups import grouped_convolution, grouped_norm
from hyperplace.steps.generate.holdings import Slice, common, count, pick
from hyperplace.steps.generate.lower import PartSteps, Step
from hyperplace.steps.generate.names import Names
from hyperplace.steps.generate.operands import Operands, slice_text
from hyperplace.steps.generate.pieces import Pieces, filter_cuts, scaled
from hyperplace.steps.generate.text import Lines, joined
from hyperplace.values.graph import Call, Graph, Layer, Ref, Rule
from hyperplace.values.plan import Ranges

# What may return its argument, or a view of it, instead of a new tensor.
_ALIASES = "flatten contiguous alias detach to _to_copy slice permute transpose unsqueeze chunk split expand"
ALIASES = RESHAPES | frozenset(_ALIASES.split())
TRAINING = {"batch_norm": "training", "instance_norm": "use_input_stats"}


class LayerText:
    """Write the steps of one layer on one part into the body of a method."""

    def __init__(self, graph: Graph, layer: Layer, part: PartSteps, pieces: Pieces, names: Names) -> None:
        self._graph, self._layer, self._part = graph, layer, part
        self._pieces, self._names = pieces, names
        self._operands = Operands(graph, part)
        self._filters: Ranges = ((0, layer.num_filters),)
        self._values: dict[str, str] = {}  # the variable of every value of the captured program
        self._fresh: set[str] = set()  # values nobody else has, which may be written in place

    def compute(self, step: Step, lines: Lines) -> None:
        """Write the whole layer for the filters of the step."""
        self._filters = step.filters
        self._read_operands(step, lines)
        self._write_calls(self._layer.calls, step.makes, lines)

    def partial(self, step: Step, lines: Lines) -> None:
        """Write the partial sums: one dense call for each of the part's shards."""
        anchor = self._layer.calls[self._layer.num_anchor_calls - 1]
        (operand,) = self._layer.operands
        for variable, shard, wanted in zip(step.makes, step.shards, step.operands, strict=True):
            text = self._operands.text(operand, wanted)
            x = lines.shared(self._names(self._layer.name, "in"), text)
            cuts = _kernel_cuts(self._layer, anchor, shard.filters, shard.channels)
            weight = self._pieces.text(self._layer, arguments(anchor)["weight"].name, cuts)
            changed = {argument_names(anchor)[0]: x, "weight": weight}
            changed |= {"bias": "None"} if "bias" in arguments(anchor) else {}
            changed |= {"groups": "1"} if self._layer.groups > 1 else {}
            lines.let(variable, call_text(anchor.op, anchor, lambda ref: ref.name, changed))

    def finish(self, step: Step, lines: Lines) -> None:
        """Write the sum of all partial sums, and the operations that follow."""
        self._filters = step.filters
        number = self._layer.num_anchor_calls
        anchor, variable = self._layer.calls[number - 1], step.makes[0]
        text = self._reduction(step)
        bias = arguments(anchor).get("bias")
        if isinstance(bias, Ref):
            ones = ", 1" * (len(anchor.shape) - 2)
            piece = self._pieces.text(self._layer, bias.name, {0: step.filters})
            text = f"{text} + {piece}.reshape(-1{ones})" if ones else f"{text} + {piece}"
        lines.let(variable, text)
        self._values[anchor.value] = variable
        self._write_calls(self._layer.calls[number:], step.makes, lines)

    def _reduction(self, step: Step) -> str:
        """Return the sum of the parts' partial sums; runs of filters with the same contributors are summed together."""
        held = self._part.partials[self._layer.name]
        runs: list[list[Slice]] = []
        for span in _elementary(step.filters, [h.filters for h in held]):
            terms = [pick(self._layer.name, (span,), [h])[0] for h in held if common((span,), h.filters)]
            last = runs[-1] if runs else []
            if [t.variable for t in last] == [t.variable for t in terms] and all(
                a.stop == b.start for a, b in zip(last, terms, strict=True)
            ):
                pairs = zip(last, terms, strict=True)
                runs[-1] = [Slice(a.variable, a.start, b.stop, a.size) for a, b in pairs]
            else:
                runs.append(terms)
        return joined([" + ".join(slice_text(term, 1) for term in terms) for terms in runs])

    def _read_operands(self, step: Step, lines: Lines) -> None:
        for number, (operand, wanted) in enumerate(zip(self._layer.operands, step.operands, strict=True)):
            text = self._operands.text(operand, wanted)
            variable = self._names(self._layer.name, "in", *([number] if number else []))
            self._values[operand.value] = lines.shared(variable, text)

    @property
    def _is_split(self) -> bool:
        return self._filters != ((0, self._layer.num_filters),)

    def _write_calls(self, calls: tuple[Call, ...], makes: tuple[str, ...], lines: Lines) -> None:
        readers = _reader_counts(calls)
        for number, call in enumerate(calls):
            refs = [ref for ref in _refs(call) if not ref.is_state]
            if is_in_place(call) and isinstance(call.args[0], Ref) and call.args[0].is_state:
                lines.add("if self.training:")
                lines.add("    " + self._expression(call, lines))
                continue
            has_data = any(ref.name in self._values for ref in refs)
            following = calls[number + 1] if number + 1 < len(calls) else None
            is_chained = following is not None and readers.get(call.value) == 1 and Ref(call.value) in _refs(following)
            is_last = following is None
            plain = makes[0] if has_data and (is_chained or is_last) else self._names(self._layer.name, call.value)
            if is_last and self._layer.results:
                self._write_results(call, makes, lines)
                return
            lines.let(plain, self._expression(call, lines))
            self._values[call.value] = plain
            if op_name(call).rstrip("_") not in ALIASES or _refs(call)[0].name in self._fresh:
                self._fresh.add(call.value)

    def _write_results(self, call: Call, makes: tuple[str, ...], lines: Lines) -> None:
        """Write a call with several results, of which some are read."""
        results = self._names(self._layer.name, "results")
        lines.let(results, self._expression(call, lines))
        for variable, result in zip(makes, self._layer.results, strict=True):
            lines.let(variable, f"{results}[{result}]")

    def _expression(self, call: Call, lines: Lines) -> str:
        name = op_name(call).rstrip("_")
        is_anchor = call is self._layer.calls[self._layer.num_anchor_calls - 1]
        if name in DROPOUTS:
            return self._dropout(call, name)
        if name in RESHAPES:
            return f"{self._text(call)(_refs(call)[0])}.reshape({self._shape(call)})"
        if is_anchor and self._is_split and self._layer.rule is Rule.GROUPED:
            x = self._values[self._layer.operands[0].value]
            if name != "group_norm":
                return grouped_convolution(self._layer, call, self._filters, x, self._pieces)
            variable = self._names(self._layer.name, "normed")
            return grouped_norm(
                self._layer, call, self._filters, x, self._pieces, assign=lambda text: lines.shared(variable, text)
            )
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
        flag = TRAINING.get(name)
        if flag and named.get(flag) is True and named.get("running_mean") is not None:
            changed[flag] = "self.training"
        if self._is_split and name.startswith("conv") and self._layer.rule is Rule.CHANNELWISE:
            changed["groups"] = str(count(self._filters))
        if name in FACTORIES:
            changed |= {n: self._with_rows(value) for n, value in named.items() if isinstance(value, tuple)}
        return changed

    def _with_rows(self, sizes: tuple[object, ...]) -> str:
        rows = f"{next(iter(self._values.values()))}.shape[0]"
        texts = [rows if size == self._graph.rows else repr(size) for size in sizes]
        return f"({', '.join(texts)},)"

    def _dropout(self, call: Call, name: str) -> str:
        named = arguments(call)
        chance = named["p"]
        return f"runtime.{name}({self._text(call)(_refs(call)[0])}, {float(chance)!r}, self)"

    def _shape(self, call: Call) -> str:
        """Return the sizes a reshape leaves, for any number of rows and the part's own filters."""
        sizes = list(call.shape)
        if self._is_split:
            sizes[1] = sizes[1] // self._layer.num_filters * count(self._filters)
        if sizes and sizes[0] % self._graph.rows == 0 and 0 not in sizes:
            sizes[0] = -1
        return ", ".join(map(str, sizes))

    def _text(self, call: Call) -> Callable[[Ref], str]:
        by_ref = {value: name for name, value in arguments(call).items() if isinstance(value, Ref)}
        factor = call.shape[1] // self._layer.num_filters if self._is_split and len(call.shape) > 1 else 1
        own = scaled(self._filters, factor)
        shapes = {p.name: p.shape for p in self._layer.parameters}
        computed = {c.value: c.shape for c in self._layer.calls}

        def text_of(ref: Ref) -> str:
            if ref.is_state:
                cuts = filter_cuts(call, by_ref.get(ref, ""), shapes[ref.name], own) if self._is_split else {}
                return self._pieces.text(self._layer, ref.name, cuts)
            text = self._values[ref.name]
            if self._is_split and self._is_state_value(ref):
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
        return all(inner.is_state or self._is_state_value(inner) for inner in _refs(calls[ref.name]))


def _kernel_cuts(layer: Layer, anchor: Call, filters: Ranges, channels: Ranges) -> dict[int, Ranges]:
    """Return the cuts of the weight for filters by channels, all of one group."""
    group = filters[0][0] // (layer.num_filters // layer.groups)
    first_channel = group * (layer.operands[0].num_channels // layer.groups)
    if op_name(anchor).startswith("conv_transpose"):
        first_filter = group * (layer.num_filters // layer.groups)
        return {0: channels, 1: _moved(filters, -first_filter)}
    return {0: filters, 1: _moved(channels, -first_channel)}


def _moved(ranges: Ranges, by: int) -> Ranges:
    return tuple((start + by, stop + by) for start, stop in ranges)


def _elementary(filters: Ranges, others: list[Ranges]) -> list[tuple[int, int]]:
    """Cut the filters wherever one of the other lists begins or ends."""
    edges = {edge for ranges in others for span in ranges for edge in span}
    found = []
    for start, stop in filters:
        inside = sorted({start, stop, *(e for e in edges if start < e < stop)})
        found += list(pairwise(inside))
    return found


def _refs(call: Call) -> list[Ref]:
    """Return every Ref in the arguments of a call, in order."""
    found: list[Ref] = []

    def visit(arg: object) -> None:
        if isinstance(arg, Ref):
            found.append(arg)
        elif isinstance(arg, tuple):
            for inner in arg:
                visit(inner)

    visit(call.args)
    visit(tuple(value for _, value in call.kwargs))
    return found


def _reader_counts(calls: tuple[Call, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for call in calls:
        for ref in _refs(call):
            counts[ref.name] = counts.get(ref.name, 0) + 1
    return counts
