"""Six small neural ODEs as anyone would write them in PyTorch, and the data they are trained on."""

import numpy
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch import nn


class Dynamics(nn.Sequential):
    """The right-hand side f(t, z) of an ODE: layers in order, of which some take the time."""

    def forward(self, t, z):
        for layer in self:
            z = layer(t, z) if isinstance(layer, TimeConv2d) else layer(z)
        return z


class TimeConv2d(nn.Conv2d):
    """A convolution that sees the time as one more channel, before the others (Chen et al. 2018)."""

    def __init__(self, channels, out_channels, kernel, **settings):
        super().__init__(channels + 1, out_channels, kernel, **settings)

    def forward(self, t, z):
        time = torch.ones_like(z[:, :1]) * t
        return super().forward(torch.cat([time, z], 1))


class Standardise(nn.Module):
    """(x - mean) / std. The constants are settings and no weights: they stand in the description."""

    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32), persistent=False)
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32), persistent=False)

    def forward(self, x):
        return (x - self.mean) / self.std


class Augment(nn.Module):
    """Appends zeros to a vector (Dupont et al. 2019), so that trajectories can pass each other."""

    def __init__(self, zeros):
        super().__init__()
        self.zeros = zeros

    def forward(self, x):
        return nn.functional.pad(x, (0, self.zeros))


class NeuralOde(nn.Module):
    """head(z(1)) where z' = dynamics(t, z) and z(0) = encoder(x)."""

    def __init__(self, encoder, dynamics, head):
        super().__init__()
        self.encoder, self.dynamics, self.head = encoder, dynamics, head

    def forward(self, x, integrate):
        """`integrate(f, z0)` gives the state at time 1."""
        return self.head(integrate(self.dynamics, self.encoder(x)))


def table(x, y, test):
    """Numbers and classes, divided into training and test samples."""
    x, y = x.astype(numpy.float32), y.astype(numpy.int64)
    return train_test_split(x, y, test_size=test, random_state=0, stratify=y)


def digits():
    """The 8x8 digits of scikit-learn as images with one channel, in [0, 1]."""
    found = datasets.load_digits()
    return table((found.images / 16)[:, None], found.target, 0.3)


def moons():
    """Two half moons, told apart by a flow of the plane."""
    data = table(*datasets.make_moons(600, noise=0.08, random_state=0), 0.3)
    dynamics = Dynamics(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))
    return data, NeuralOde(nn.Sequential(), dynamics, nn.Sequential(nn.Linear(2, 2)))


def breast_cancer():
    """30 measurements of a tumour, benign or malignant; linear in front of the ODE and behind it."""
    found = datasets.load_breast_cancer()
    data = table(found.data, found.target, 0.3)
    encoder = nn.Sequential(Standardise(data[0].mean(0), data[0].std(0)), nn.Linear(30, 6))
    dynamics = Dynamics(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))
    return data, NeuralOde(encoder, dynamics, nn.Sequential(nn.Linear(6, 2)))


def convolutional():
    """Digits by a small convolutional network with batch normalisation."""
    encoder = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    dynamics = Dynamics(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    return digits(), NeuralOde(encoder, dynamics, nn.Sequential(nn.Flatten(), nn.Linear(128, 10)))


def runge_kutta():
    """Three blobs of points by fixed steps of torchdiffeq's `rk4`."""
    centres = [[-1.0, 0.0], [1.0, 0.0], [0.0, 1.5]]
    x, y = datasets.make_blobs(600, centers=centres, cluster_std=0.35, random_state=0)
    dynamics = Dynamics(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    return table(x, y, 0.3), NeuralOde(nn.Sequential(), dynamics, nn.Sequential(nn.Linear(2, 3)))


def augmented():
    """A disc inside a ring, which no flow of the plane can pull apart: two more dimensions can."""
    x, y = datasets.make_circles(600, noise=0.06, factor=0.4, random_state=0)
    dynamics = Dynamics(nn.Linear(4, 20), nn.Tanh(), nn.Linear(20, 4))
    return table(x, y, 0.3), NeuralOde(nn.Sequential(Augment(2)), dynamics, nn.Sequential(nn.Linear(4, 2)))


def ode_net():
    """Digits by the ODE-Net of Chen et al. (2018), made small: group normalisation and time in its dynamics."""
    channels = 8

    def norm():
        return nn.GroupNorm(channels // 2, channels)

    def convolution():
        return TimeConv2d(channels, channels, 3, padding=1)

    encoder = nn.Sequential(
        nn.Conv2d(1, channels, 3), norm(), nn.ReLU(), nn.Conv2d(channels, channels, 4, stride=2, padding=1)
    )
    dynamics = Dynamics(norm(), nn.ReLU(), convolution(), norm(), nn.ReLU(), convolution(), norm())
    head = nn.Sequential(norm(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
    return digits(), NeuralOde(encoder, dynamics, head)
