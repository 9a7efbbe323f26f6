"""Models of images ``[channels, height, width]``."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from torch import Tensor, nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape

_Builder = TypeVar("_Builder", bound=Callable[[Shape, int], nn.Module])
#: Channels of VGG11's convolutions; "M" halves height and width.
_VGG11 = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
#: MobileNetV2's stages: expansion, channels, blocks, stride.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _shown_for(*example: int) -> Callable[[_Builder], _Builder]:
    """Return what notes the sample for which `fedsub models` shows a builder's size."""

    def note(build: _Builder) -> _Builder:
        vars(build)["example"] = example
        return build

    return note


@_shown_for(1, 8, 8)
def cnn2d(input_shape: Shape, classes: int) -> nn.Sequential:
    """Return a small CNN for pictures of 8 x 8 pixels and more."""
    channels = _image(input_shape, "cnn2d", 8)[0]
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


@_shown_for(3, 28, 28)
def digit5_cnn(input_shape: Shape, classes: int) -> nn.Sequential:
    """Return FedBN's CNN of digits (Li et al., ICLR 2021, appendix D).

    14,219,210 numbers of pictures 3 x 28 x 28 and 10 classes.
    """
    channels, height, width = _image(input_shape, "digit5-cnn", 4)
    layers: list[nn.Module] = []
    for before, after, halves in ((channels, 64, True), (64, 64, True), (64, 128, False)):
        layers += [nn.Conv2d(before, after, 5, padding=2), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] * halves
    layers.append(nn.Flatten())
    for before, after in ((128 * (height // 4) * (width // 4), 2048), (2048, 512)):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(512, classes))


@_shown_for(3, 32, 32)
def vgg11(input_shape: Shape, classes: int) -> nn.Sequential:
    """Return VGG11 for pictures of 32 x 32 pixels (Simonyan and Zisserman, ICLR 2015, net A).

    One layer follows the convolutions: 9,225,610 numbers of 3 channels and 10 classes.
    """
    channels, height, width = _image(input_shape, "vgg11", 32)
    layers: list[nn.Module] = []
    for one in _VGG11:
        if isinstance(one, str):
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, one, 3, padding=1), nn.ReLU()]
        channels = one
    size = 512 * (height // 32) * (width // 32)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(size, classes))


class _Basic(nn.Module):
    """Two convolutions and the way around them (He et al., CVPR 2016)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU()
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for ``x [batch, channels, height, width]``."""
        around: Tensor = self.shortcut(x)
        made: Tensor = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(made + around)
        return out


@_shown_for(3, 32, 32)
def resnet18(input_shape: Shape, classes: int) -> nn.Sequential:
    """Return ResNet-18 for pictures of 32 x 32 pixels (He et al., CVPR 2016).

    Its first convolution has kernel 3 and stride 1, and no pooling follows: 11,173,962 numbers of
    3 channels and 10 classes.
    """
    channels = _image(input_shape, "resnet18", 8)[0]
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    before = 64
    for i, after in enumerate((64, 128, 256, 512)):
        stride = 1 if i == 0 else 2
        stages[f"layer{i + 1}"] = nn.Sequential(
            _Basic(before, after, stride), _Basic(after, after, 1)
        )
        before = after
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 64, 3, 1, 1, bias=False),
            bn1=nn.BatchNorm2d(64),
            relu=nn.ReLU(),
            **stages,
            pool=nn.AdaptiveAvgPool2d(1),
            flat=nn.Flatten(),
            fc=nn.Linear(512, classes),
        )
    )


class _Inverted(nn.Module):
    """Expand, filter each channel by itself, and project (Sandler et al., CVPR 2018)."""

    def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [nn.Conv2d(before, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        layers += [
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, after, 1, bias=False),
            nn.BatchNorm2d(after),
        ]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for ``x [batch, channels, height, width]``."""
        made: Tensor = self.layers(x)
        return x + made if self.adds else made


@_shown_for(3, 32, 32)
def mobilenet_v2(input_shape: Shape, classes: int) -> nn.Sequential:
    """Return MobileNetV2 (Sandler et al., CVPR 2018), its strides for pictures of 32 x 32 pixels.

    2,236,682 numbers of 3 channels and 10 classes. Of small pictures the first convolution and the
    second stage keep height and width.
    """
    channels, height, _ = _image(input_shape, "mobilenet-v2", 8)
    small = height < 128
    before = 32
    layers: list[nn.Module] = [
        nn.Conv2d(channels, before, 3, 1 if small else 2, 1, bias=False),
        nn.BatchNorm2d(before),
        nn.ReLU6(),
    ]
    for i, (expansion, after, blocks, stride) in enumerate(_STAGES):
        for block in range(blocks):
            step = 1 if block or (small and i == 1) else stride
            layers.append(_Inverted(before, after, step, expansion))
            before = after
    layers += [nn.Conv2d(before, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(1280, classes))


def _image(input_shape: Shape, kind: str, least: int) -> Shape:
    if len(input_shape) != 3 or min(input_shape[1:]) < least:
        raise ConfigError(
            f"{kind} wants images [channels, height, width] of {least} x {least} pixels or more, "
            f"got samples of shape {input_shape}"
        )
    return input_shape
