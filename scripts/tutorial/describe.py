"""From PyTorch modules to the description that `gains model import` takes."""

from torch import nn

from networks import Augment, Standardise, TimeConv2d


def pair(setting):
    """Height and width of a setting that may be one number for both."""
    return list(setting) if isinstance(setting, tuple) else [setting, setting]


def layer(module, name):
    """One layer; `name` is what its tensors are called in the state dict, less `.weight` and `.bias`."""
    match module:
        case nn.Linear():
            return {"type": "linear", "name": name, "in_features": module.in_features, "out_features": module.out_features}
        case nn.Conv2d():
            time = isinstance(module, TimeConv2d)
            return {
                "type": "conv2d",
                "name": name,
                "in_channels": module.in_channels - time,
                "out_channels": module.out_channels,
                "kernel": pair(module.kernel_size),
                "stride": pair(module.stride),
                "padding": pair(module.padding),
                **({"time": True} if time else {}),
            }
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            return {"type": "batch_norm", "name": name, "channels": module.num_features, "eps": module.eps}
        case nn.GroupNorm():
            sizes = {"groups": module.num_groups, "channels": module.num_channels}
            return {"type": "group_norm", "name": name, **sizes, "eps": module.eps}
        case Standardise():
            return {"type": "normalize", "mean": module.mean.tolist(), "std": module.std.tolist()}
        case Augment():
            return {"type": "pad", "after": module.zeros}
        case nn.ReLU():
            return {"type": "relu"}
        case nn.Tanh():
            return {"type": "tanh"}
        case nn.AdaptiveAvgPool2d(output_size=1):
            return {"type": "global_avg_pool"}
        case nn.Flatten():
            return {"type": "flatten"}
    raise ValueError(f"no words for {module}")


def layers(modules, name):
    """The layers of an `nn.Sequential` called `name`."""
    return [layer(module, f"{name}.{index}") for index, module in enumerate(modules)]


def description(name, network, shape, classes, solver):
    """The whole network: encoder, ODE, head. `shape` is that of one input as PyTorch has it."""
    if len(shape) == 1:
        shape = (shape[0], 1, 1)
    ode = {"type": "ode", "dynamics": layers(network.dynamics, "dynamics"), "solver": solver}
    return {
        "format": "gains-model",
        "version": 2,
        "name": name,
        "task": {"type": "classification", "classes": classes},
        "input": dict(zip(["channels", "height", "width"], shape)),
        "layers": layers(network.encoder, "encoder") + [ode] + layers(network.head, "head"),
    }
