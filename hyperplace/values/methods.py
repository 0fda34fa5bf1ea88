"""The ways to make a plan that tables compare: a name, a grain and a partitioner each."""

Kind = tuple[str, str, str]

LAYERWISE: Kind = ("layer-wise", "coarse", "layerwise")
INCREMENTAL: Kind = ("incremental", "coarse", "incremental")
COARSE: Kind = ("coarse auto", "coarse", "auto")
FINE: Kind = ("fine auto", "fine", "auto")
HYBRID: Kind = ("hybrid auto", "hybrid", "auto")
DATA_PARALLEL: Kind = ("data parallelism", "hybrid", "dataparallel")
PER_SHARD = "data parallelism, norms per part"  # whose batch norms see a part's own rows, as torch DDP's do
# One host owns all weights, or each whole layers in turn or by their bytes: what others spread data parallelism by.
SERVERS: tuple[Kind, ...] = (
    ("parameter server", "hybrid", "server"),
    ("servers in turn", "hybrid", "server-roundrobin"),
    ("servers by bytes", "hybrid", "server-greedy"),
)
BY_TIME = "by time"  # the plan that a simulation says takes least
AS_IF_EQUAL = "by time, as if equal"  # the same, made for hosts of which each has what they have on average
