"""A layer while calls are still being added to it."""

from dataclasses import dataclass, field

from hyperplace.steps.capture.rules import Anchor
from hyperplace.steps.capture.sizes import Bytes
from hyperplace.values.call import couples_rows
from hyperplace.values.graph import Call, Layer, Operand, Parameter, Rule, TensorType


@dataclass
class Draft:
    """What is known of a layer so far; multiply-adds are for all rows of the sample."""

    name: str
    kind: str
    rule: Rule
    num_filters: int
    operands: tuple[Operand, ...]
    anchor_bytes: Bytes
    anchor: Anchor | None = None
    reason: str = ""
    out_bytes: Bytes = field(default_factory=Bytes)
    shape: tuple[int, ...] = ()
    has_rows: bool = True
    couples_rows: bool = False
    saved_bytes: int = 0  # of one row
    whole_macs: int = 0  # counted where no rule knows them
    calls: list[Call] = field(default_factory=list)
    num_anchor_calls: int = 0
    type: TensorType | None = None  # of what it makes
    result_bytes: dict[int, Bytes] = field(default_factory=dict)  # of those of several that are read
    result_types: dict[int, TensorType] = field(default_factory=dict)
    result_values: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    state: dict[str, None] = field(default_factory=dict)  # parameters and buffers, in order of use

    def finished(self, parameters: dict[str, Parameter], rows: int) -> Layer:
        """Return the layer, with all that scales for one row."""
        anchor = self.anchor or Anchor(self.rule, ())
        made = sum(self.result_bytes.values(), Bytes()) if self.result_bytes else self.out_bytes
        return Layer(
            name=self.name,
            kind=self.kind,
            rule=self.rule,
            num_filters=self.num_filters,
            map_bytes=-(-made.per_row // self.num_filters),
            fixed_bytes=made.fixed,
            shape=self.shape,
            results=tuple(sorted(self.result_bytes)),
            operands=self.operands,
            groups=anchor.groups,
            partial_bytes=-(-self.anchor_bytes.per_row // self.num_filters),
            saved_bytes=-(-self.saved_bytes // self.num_filters),
            macs=self.whole_macs // rows if self.rule is Rule.WHOLE else anchor.macs,
            sums_channels=anchor.sums_channels,
            parameters=tuple(parameters[name] for name in self.state),
            calls=tuple(self.calls),
            num_anchor_calls=self.num_anchor_calls,
            reason=self.reason,
            has_rows=self.has_rows,
            couples_rows=self.couples_rows or any(map(couples_rows, self.calls)),
            result_values=self.result_values,
            writes=self.writes,
            makes=tuple(self.result_types[number] for number in sorted(self.result_types)) or self._types(),
        )

    def _types(self) -> tuple[TensorType, ...]:
        return (self.type,) if self.type else ()
