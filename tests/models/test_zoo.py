"""Every model of the zoo: known parameter counts, small inputs, and torch.export."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from hyperplace.models import ZOO, ModelEntry, load_model

PARAMETERS = {
    "lenet5": 61_706,
    "smallcnn": 421_642,
    "alexnet": 62_378_344,
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "vgg11_bn": 132_868_840,
    "vgg13_bn": 133_053_736,
    "vgg16_bn": 138_365_992,
    "vgg19_bn": 143_678_248,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "googlenet": 6_624_904,
    "mobilenet_v2": 3_504_872,
}
SMALL = {"alexnet": (3, 67, 67), "lenet5": (1, 32, 32), "smallcnn": (1, 28, 28)}

every_model = pytest.mark.parametrize("entry", ZOO.values(), ids=ZOO)


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """Run torch on one thread: two test workers with two threads each spin on each other's barriers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def num_classes(entry: ModelEntry) -> int:
    return 10 if entry.name in ("lenet5", "smallcnn", "blocksnet") else 1000


@pytest.mark.parametrize(("name", "count"), PARAMETERS.items())
def test_parameter_count(name: str, count: int) -> None:
    assert sum(parameter.numel() for parameter in load_model(name).module.parameters()) == count


def test_every_model_but_the_test_net_has_a_known_count() -> None:
    assert ZOO.keys() - PARAMETERS.keys() == {"blocksnet"}


@every_model
def test_entry_names_itself_in_a_sentence(entry: ModelEntry) -> None:
    assert ZOO[entry.name] is entry
    assert entry.about
    assert "\n" not in entry.about
    assert min(entry.input_shape[1:]) >= entry.min_side


@every_model
def test_usual_input_on_meta(entry: ModelEntry) -> None:
    model = load_model(entry.name)
    assert all(parameter.is_meta for parameter in model.module.parameters())
    assert model.module(*model.sample).shape == (2, num_classes(entry))


@every_model
def test_smallest_input_on_meta(entry: ModelEntry) -> None:
    model = load_model(entry.name, [(entry.input_shape[0], entry.min_side, entry.min_side)])
    assert model.module(*model.sample).shape == (2, num_classes(entry))


@every_model
@pytest.mark.usefixtures("_one_thread")
def test_forward_and_backward_on_cpu(entry: ModelEntry) -> None:
    model = load_model(entry.name, [SMALL.get(entry.name, (3, 32, 32))], device="cpu")
    out = model.module(*model.sample)
    out.square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.module.parameters())
    with torch.no_grad():
        quiet = model.module.eval()(*model.sample)
    for result in (out, quiet):
        assert result.shape == (2, num_classes(entry))
        assert result.isfinite().all()


@every_model
def test_export_in_train_mode_on_meta(entry: ModelEntry) -> None:
    model = load_model(entry.name)
    program = torch.export.export(model.module, model.sample, strict=False)
    exported = {spec.target for spec in program.graph_signature.input_specs if spec.kind.name == "PARAMETER"}
    assert exported == {name for name, _ in model.module.named_parameters()}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("vgg16", "features.28.weight"),
        ("vgg16", "classifier.6.bias"),
        ("vgg16_bn", "features.41.running_mean"),
        ("resnet50", "layer3.0.downsample.0.weight"),
        ("resnet18", "layer4.1.bn2.weight"),
        ("googlenet", "inception4e.branch3.1.conv.weight"),
        ("mobilenet_v2", "features.17.conv.2.weight"),
        ("mobilenet_v2", "features.18.1.running_var"),
    ],
)
def test_well_known_names(name: str, path: str) -> None:
    assert path in load_model(name).module.state_dict()


def test_plain_vgg_keeps_the_signal() -> None:
    """With torch's own initialisation the logits of vgg19 hardly depend on the image."""
    torch.manual_seed(0)
    model = load_model("vgg19", [(3, 32, 32)], device="cpu")
    with torch.no_grad():
        first, second = model.module.eval()(*model.sample)
    assert (first - second).std() > 0.1


def test_blocksnet_has_a_block_of_every_kind() -> None:
    model = load_model("blocksnet")
    groups = {m.groups == m.in_channels for m in model.module.modules() if getattr(m, "groups", 1) > 1}
    program = torch.export.export(model.module, model.sample, strict=False)
    calls = {str(node.target) for node in program.graph.nodes}
    assert groups == {True, False}
    assert {"aten.cat.default", "aten.mul.Tensor", "aten.sigmoid.default", "aten.add_.Tensor"} <= calls


def test_listing_the_zoo_does_not_import_torch() -> None:
    code = "import sys, hyperplace.models as m; m.ZOO; m.parse_shape('3x8x8'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
