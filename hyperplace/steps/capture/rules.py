"""The channel rule of every ATen operation: which input channels an output channel needs.

A rule looks at one call and says what it means for channels:
- `Anchor`: a layer of its own starts here;
- `Follows`: output channel j needs channel j of the one operand, so it trails the layer that made it;
- `Moved`: no work, the channels only have new names or numbers.
It raises `Unsplittable` with the reason where none fits. To split more models, add a rule to `RULES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from hyperplace.steps.capture.views import Unsplittable, View, concat, cut, permute, reshape
from hyperplace.values.graph import Reads, Rows, Rule


@dataclass(frozen=True)
class State:
    """A value that does not depend on the input: a parameter or buffer itself (`name`), or computed from some."""

    shape: tuple[int, ...]
    name: str = ""
    trained: tuple[str, ...] = ()  # the trained parameters it depends on
    value: str = ""  # its name in the captured program


@dataclass(frozen=True)
class Site:
    """One call: its arguments by their ATen names, and the shape of its result."""

    op: str
    args: dict[str, Any]
    shape: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...] = ()  # of a call that returns several tensors
    has_rows: bool = True  # dimension 0 of all its results is the batch, and nothing else depends on its size

    def view(self, name: str) -> View:
        """Return a data operand, which must have its batch and channels where we look for them."""
        value = self.args[name]
        if not isinstance(value, View):
            raise Unsplittable(f"its {name} does not depend on the input")
        return value


@dataclass(frozen=True)
class Anchor:
    rule: Rule
    operands: tuple[tuple[View, Reads], ...]
    groups: int = 1
    macs: int = 0
    sums_channels: bool = False


@dataclass(frozen=True)
class Follows:
    operand: View


@dataclass(frozen=True)
class Moved:
    views: tuple[View, ...]
    may_trail: bool = False  # a reshape of one layer's output can be done by that layer


Outcome = Anchor | Follows | Moved


def channel_rule(site: Site) -> Outcome:
    """Return what the call does to channels, or raise Unsplittable."""
    if site.op not in RULES:
        raise Unsplittable(f"there is no channel rule for {site.op}")
    if not site.has_rows:
        raise Unsplittable("the first dimension of its result is not the batch")
    if site.op not in ROWS_WELCOME and any(isinstance(x, Rows) for x in _flat(site)):
        raise Unsplittable("its arguments depend on the number of rows")
    for view in _views(site):
        if not view.has_rows:
            raise Unsplittable("it reads a value whose first dimension is not the batch")
        if view.channel_dims > 1 and site.op not in SHUFFLES:
            raise Unsplittable("it reads channels in the middle of a shuffle")
    return RULES[site.op](site)


def _views(site: Site) -> list[View]:
    return [x for x in _flat(site) if isinstance(x, View)]


def _flat(site: Site) -> list[Any]:
    return [x for v in site.args.values() for x in (v if isinstance(v, list | tuple) else [v])]


def _convolution(site: Site) -> Anchor:
    x, weight, groups = site.view("input"), _weight(site), site.args.get("groups", 1)
    transposed = site.op.startswith("conv_transpose")
    pixels = prod(x.shape[2:]) if transposed else prod(site.shape[2:])
    macs = pixels * prod(weight.shape)
    if groups == 1:
        return Anchor(Rule.MIXING, ((x, Reads.ALL),), 1, macs, sums_channels=True)
    if groups == x.shape[1] == site.shape[1]:
        return Anchor(Rule.CHANNELWISE, ((x, Reads.SAME),), 1, macs)
    return Anchor(Rule.GROUPED, ((x, Reads.GROUP),), groups, macs, sums_channels=groups < x.shape[1])


def _linear(site: Site) -> Anchor:
    x, weight = site.view("input"), _weight(site)
    if len(x.shape) != 2:
        raise Unsplittable("it is a linear layer over the last of several dimensions, one weight for all channels")
    return Anchor(Rule.MIXING, ((x, Reads.ALL),), 1, prod(weight.shape), sums_channels=True)


def _weight(site: Site) -> State:
    weight = site.args["weight"]
    if not isinstance(weight, State) or not weight.name:
        raise Unsplittable("its weight is computed, not a parameter of its own")
    _check_state(site)
    return weight


def _check_state(site: Site) -> None:
    """Refuse trained values that are computed: a part could not tell which slice of the parameter is its own."""
    for value in site.args.values():
        if isinstance(value, State) and value.trained and not value.name:
            raise Unsplittable(f"it uses a value computed from {value.trained[0]}")


def _pointwise(site: Site) -> Outcome:
    """Handle whatever acts on every channel by itself, with one or several operands of the same channels."""
    _check_state(site)
    views = list(dict.fromkeys(_views(site)))
    channels, rank = site.shape[1] if len(site.shape) > 1 else 0, len(site.shape)
    for state in (v for v in site.args.values() if isinstance(v, State)):
        _check_broadcast(state, channels, rank)
    if len(views) == 1 and views[0].shape[1] == channels:
        return Follows(views[0])
    return Anchor(Rule.CHANNELWISE, tuple((view, _broadcast_reads(view, channels, rank)) for view in views))


def _broadcast_reads(view: View, channels: int, rank: int) -> Reads:
    if len(view.shape) == rank and view.shape[1] == channels:
        return Reads.SAME
    if len(view.shape) == rank and view.shape[1] == 1:
        return Reads.ALL
    raise Unsplittable(f"it broadcasts an operand of shape {view.shape} over other dimensions than its own")


def _check_broadcast(state: State, channels: int, rank: int) -> None:
    """Accept a parameter with one entry per channel; one that all channels share would need its gradient summed."""
    position = len(state.shape) - (rank - 1)
    per_channel = 0 <= position < len(state.shape) and state.shape[position] == channels
    if state.trained and not per_channel:
        raise Unsplittable(f"its parameter {state.trained[0]} is shared by all channels")


def _norm(site: Site) -> Outcome:
    """Handle batch and instance norm: parameters are one per channel, of shape (channels,)."""
    _check_state(site)
    return Follows(site.view("input"))


def _prelu(site: Site) -> Outcome:
    x, weight = site.view("self"), _weight(site)
    if weight.shape != (x.shape[1],):
        raise Unsplittable(f"its parameter {weight.name} is shared by all channels")
    return Follows(x)


def _group_norm(site: Site) -> Anchor:
    _check_state(site)
    return Anchor(Rule.GROUPED, ((site.view("input"), Reads.GROUP),), site.args["num_groups"])


def _per_map(site: Site) -> Follows:
    """Handle pooling and resampling: every channel by itself, whatever the arguments."""
    view = next(v for v in site.args.values() if isinstance(v, View))
    if len(view.shape) != 2 + int(next(letter for letter in site.op if letter.isdigit())):
        raise Unsplittable("it pools over channels")
    return Follows(view)


def _over_dims(site: Site) -> Outcome:
    """Handle a reduction or softmax: channel-wise unless it runs over channels or the batch."""
    view = site.view("self")
    dims = site.args.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    if not dims or any(dim % len(view.shape) < 2 for dim in dims):
        raise Unsplittable("it runs over channels")
    return _pointwise(site)


def _pad(site: Site) -> Outcome:
    view = site.view("self")
    if len(site.args["pad"]) > 2 * (len(view.shape) - 2):
        raise Unsplittable("it pads channels")
    return _pointwise(site)


def _reshape(site: Site) -> Moved:
    return Moved((reshape(site.view("self"), site.shape),), may_trail=True)


def _identity(site: Site) -> Outcome:
    view = next(iter(_views(site)))
    return Follows(view) if view.channel_dims == 1 else Moved((view,))


def _permute(site: Site) -> Outcome:
    view = site.view("self")
    rank = len(view.shape)
    if "dims" in site.args:
        dims = [dim % rank for dim in site.args["dims"]]
    else:
        one, two = site.args["dim0"] % rank, site.args["dim1"] % rank
        dims = list(range(rank))
        dims[one], dims[two] = two, one
    if view.channel_dims == 1 and dims[:2] == [0, 1]:
        return Follows(view)
    return Moved((permute(view, tuple(dims), site.shape),))


def _cat(site: Site) -> Outcome:
    views, dim = site.args["tensors"], site.args.get("dim", 0) % len(site.shape)
    if not all(isinstance(view, View) for view in views):
        raise Unsplittable("it joins values that do not depend on the input")
    if dim == 1:
        return Moved((concat(list(views), site.shape),))
    if dim == 0:
        raise Unsplittable("it joins along the batch")
    return _pointwise(site)


def _slice(site: Site) -> Outcome:
    view, dim = site.view("self"), site.args.get("dim", 0) % len(site.shape)
    if dim > 1:
        return Follows(view)
    if view.shape == site.shape:
        return Moved((view,))
    if dim == 0 or site.args.get("step", 1) != 1:
        raise Unsplittable("it takes single rows of the batch or every n-th channel")
    start = site.args.get("start") or 0
    start = max(start + view.shape[1], 0) if start < 0 else start
    return Moved((cut(view, start, start + site.shape[1], site.shape),))


def _split(site: Site) -> Moved:
    view = site.view("self")
    if site.args.get("dim", 0) % len(view.shape) != 1:
        raise Unsplittable("it splits another dimension than channels")
    views, start = [], 0
    for shape in site.shapes:
        views.append(cut(view, start, start + shape[1], shape))
        start += shape[1]
    return Moved(tuple(views))


SHUFFLES = {"view", "reshape", "_unsafe_view", "permute", "transpose", "contiguous", "clone"}

_POINTWISE = """
    add sub mul div rsub maximum minimum pow
    relu relu6 gelu silu mish sigmoid tanh softplus hardtanh hardswish hardsigmoid leaky_relu elu selu celu
    threshold clamp clamp_min clamp_max abs neg exp log sqrt rsqrt square erf reciprocal sin cos logsigmoid
    dropout feature_dropout alpha_dropout feature_alpha_dropout where ones_like zeros_like
"""
_PER_MAP = """
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool2d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d
"""

ROWS_WELCOME = frozenset([*SHUFFLES, *_POINTWISE.split()])  # whose arguments may be computed from the rows

RULES: dict[str, Callable[[Site], Outcome]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _convolution),
    "linear": _linear,
    **dict.fromkeys(_POINTWISE.split(), _pointwise),
    **dict.fromkeys(_PER_MAP.split(), _per_map),
    **dict.fromkeys(("batch_norm", "instance_norm"), _norm),
    "prelu": _prelu,
    "group_norm": _group_norm,
    **dict.fromkeys(("mean", "sum", "amax", "amin", "softmax", "log_softmax"), _over_dims),
    "pad": _pad,
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "flatten", "unflatten"), _reshape),
    **dict.fromkeys(("squeeze", "unsqueeze"), _reshape),
    **dict.fromkeys(("contiguous", "clone", "alias", "detach", "to", "_to_copy"), _identity),
    **dict.fromkeys(("permute", "transpose"), _permute),
    **dict.fromkeys(("cat", "concat"), _cat),
    "slice": _slice,
    **dict.fromkeys(("chunk", "split", "split_with_sizes", "tensor_split"), _split),
}
