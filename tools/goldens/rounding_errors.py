"""How far the floating-point results of two processors may lie apart.

Processors round differently: they fuse a product with a sum or do not, and
their exp, log, pow and sums differ in the last bits. RoundingErrors notes what
each operation of a computation may round, and autograd says what that does to
a result: |result's derivative| times the error, summed over all operations and
uncertain inputs, is a bound (to first order) of the result's error.
"""

import torch
from torch.overrides import TorchFunctionMode

# What one operation may be wrong by, in units of rounding: the functions of
# the vector libraries keep within two, sums and products within one.
ROUNDINGS = 2
# These give their inputs' values as they are.
EXACT = {
    "__getitem__", "__neg__", "clone", "detach", "expand", "neg", "ones",
    "repeat", "requires_grad_", "reshape", "stack", "to", "unsqueeze", "view",
    "zeros"}


def unit_roundoff(dtype):
    return torch.finfo(dtype).eps / 2


def is_number(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


class RoundingErrors(TorchFunctionMode):
    """Notes what is computed within it; one for a computation and all that
    follows from it. Tensors should have few values."""

    def __init__(self):
        super().__init__()
        # Tensors, and by how much each of their values may differ.
        self._uncertain = []

    def add(self, tensor, error):
        """Returns `tensor` as an input that is known to within `error`."""
        tensor = tensor.detach().clone().requires_grad_()
        error = torch.as_tensor(error, dtype=torch.float64)
        if error.any():
            self._uncertain.append((tensor, error.expand(tensor.shape)))
        return tensor

    def bound(self, result):
        """How far each value may lie from what another processor computes."""
        tensors = [tensor for tensor, _ in self._uncertain]
        bounds = []
        for value in result.flatten():
            gradients = torch.autograd.grad(
                value, tensors, retain_graph=True, allow_unused=True)
            # What is exact counts nothing, however steep.
            bounds.append(sum(
                torch.where(error == 0, 0, error * gradient.abs().double()).sum()
                for gradient, (_, error) in zip(gradients, self._uncertain)
                if gradient is not None))
        # One for each of the two.
        return 2 * torch.stack(bounds).detach()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not is_number(result) or getattr(
                function, "__name__", "") in EXACT:
            return result
        if not result.requires_grad:
            result.requires_grad_()
        if not result.all():
            # A result that does not depend on zero's logarithm does not
            # depend on its slope, which is infinite: 0 * infinity is 0 here.
            result.register_hook(lambda gradient: gradient.nan_to_num(nan=0))
        # What is infinite is not rounded.
        size = result.detach().double().abs().nan_to_num(nan=0, posinf=0)
        self._uncertain.append(
            (result, ROUNDINGS * unit_roundoff(result.dtype) * size))
        return result
