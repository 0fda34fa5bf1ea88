"""Whether a call that is placed whole keeps the rows of the batch apart.

Known are calls on tensors whose dimension 0 is the batch, or a multiple of it with a row's entries side by side, that
leave this dimension alone. Whatever is not known here may mix rows.
"""

from typing import Any

import torch
from torch.fx import Node

from hyperplace.steps.capture.aliases import op_name
from hyperplace.steps.capture.sizes import leads_with_rows

_POINTWISE = """
    abs add sub mul div rsub neg exp log log1p expm1 sqrt rsqrt square pow reciprocal sin cos tanh sigmoid erf sign
    relu relu6 gelu silu mish softplus hardtanh hardswish hardsigmoid leaky_relu elu selu celu prelu threshold
    clamp clamp_min clamp_max maximum minimum where masked_fill eq ne lt le gt ge logical_not logical_and logical_or
    bitwise_not bitwise_and bitwise_or to _to_copy type_as clone contiguous detach alias copy fill zero lerp addcmul
    addcdiv dropout feature_dropout alpha_dropout bernoulli zeros_like ones_like full_like rand_like randn_like
    empty_like nan_to_num isnan isinf real imag view_as_real view_as_complex
"""
_PER_ROW = """
    linear matmul bmm baddbmm embedding layer_norm rms_norm group_norm scaled_dot_product_attention
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d pad constant_pad_nd reflection_pad2d
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool2d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d upsample_bilinear2d upsample_bicubic2d upsample_linear1d upsample_trilinear3d pixel_shuffle
    pixel_unshuffle view reshape _unsafe_view expand unflatten channel_shuffle unfold glu local_response_norm
"""
_OVER_DIM = """
    softmax log_softmax mean sum amax amin argmax argmin max min prod std var logsumexp cumsum cumprod norm sort topk
    select slice narrow index_select gather unsqueeze squeeze unbind chunk split split_with_sizes tensor_split cat
    stack flip roll flatten permute transpose movedim diff
"""
POINTWISE, PER_ROW, OVER_DIM = (frozenset(text.split()) for text in (_POINTWISE, _PER_ROW, _OVER_DIM))


def keeps_rows_apart(node: Node) -> bool:
    """Say whether every row of a call's results depends on the same row of its arguments alone."""
    name = op_name(node).rstrip("_")
    if name == "getitem":
        return True
    tensors = [n for n in node.all_input_nodes if _depends_on_rows(n)]
    if not all(leads_with_rows(value) for n in (*tensors, node) for value in _values(n)):
        return False
    if name in POINTWISE:
        return len({value.ndim for n in (*tensors, node) for value in _values(n)}) <= 1
    if name in PER_ROW:
        return name not in ("linear", "matmul") or all(value.ndim > 1 for n in tensors for value in _values(n))
    return name in OVER_DIM and _leaves_first_dimension(node, name)


def _depends_on_rows(node: Node) -> bool:
    return any(isinstance(side, torch.SymInt) for value in _values(node) for side in value.shape)


def _values(node: Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    return [v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, torch.Tensor)]


def _leaves_first_dimension(node: Node, name: str) -> bool:
    """Say whether the dimensions that a call names are others than the first."""
    schema = node.target._schema  # type: ignore[union-attr]
    named: dict[str, Any] = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    named |= dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
    if name == "permute":
        return named["dims"][0] == 0  # type: ignore[no-any-return]
    rank = max((value.ndim for n in (*node.all_input_nodes, node) for value in _values(n)), default=0)
    dims = [named[key] for key in ("dim", "dims", "dim0", "dim1", "start_dim", "source", "destination") if key in named]
    flat = [d for dim in dims for d in (dim if isinstance(dim, list | tuple) else [dim])]
    return bool(flat) and all(isinstance(d, int) and d % max(rank, 1) != 0 for d in flat)
