"""Calls of compiled functions from PyTensor's Numba backend by address, so that they are compiled once per machine.

Numba puts a copy of every function that is called into its caller's code and optimises it again: a kernel of this
package once by itself, once for its operation, and twice for every graph with the operation: seconds for each new model
and each new data set. Here the caller's code, which PyTensor keeps on disk, has the name of a symbol instead. LLVM is
told its address in each process before such code is compiled or loaded, because PyTensor asks for the functions of
all operations of a graph first, to find out under which key its code is kept.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Sequence
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import get_cython_function_address, intrinsic

from pm_dpgmm._arguments import FloatArray

_known: dict[str, Any] = {}  # symbols whose address LLVM was told; their compiled code must stay in memory


def version_of(kernel: Any) -> int:
    """A number that changes with name and source of the kernel's module and of this one.

    So code on disk that an older version compiled, and that would import what had another name then, is not found.
    """
    names = kernel.py_func.__module__, __name__
    sources = [f"{name} {inspect.getsource(sys.modules[name])}" for name in names]
    return int(hashlib.sha256("\n".join(sources).encode()).hexdigest()[:15], 16)


def by_address(kernel: Any, inputs: Sequence[Any]) -> Any:
    """A function for use in other compiled functions that calls ``kernel``, and raises its errors.

    Parameters
    ----------
    kernel : function that ``numba.njit`` made
        Of arrays that are contiguous by rows; others are copied before.
    inputs : sequence of tensor variables
        What it will be called with.
    """
    types = tuple(numba.types.Array(numba.from_dtype(np.dtype(one.dtype)), one.ndim, "C") for one in inputs)
    kernel.compile(types)  # or loads it
    compiled = kernel.overloads[types]
    result, symbol = compiled.signature.return_type, f"pm_dpgmm_{kernel.__name__}_{version_of(kernel)}_{_code(types)}"
    if symbol not in _known:
        address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        llvmlite.binding.add_symbol(symbol, address)
        _known[symbol] = compiled

    def call(typing: Any, *given: Any) -> Any:
        def code(context: Any, builder: Any, called: Any, packed: Sequence[Any]) -> Any:
            values = cgutils.unpack_tuple(builder, packed[0])
            arrays = [
                value if has.layout == "C" else context.compile_internal(builder, _copied, signature(to, has), [value])
                for value, has, to in zip(values, given, types, strict=True)
            ]
            function = context.call_conv.get_function_type(result, types)
            target = cgutils.get_or_insert_function(builder.module, function, symbol)
            status, out = context.call_conv.call_function(builder, target, result, types, arrays)
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return out

        return signature(result, numba.types.StarArgTuple.from_types(given)), code

    call.__name__ = kernel.__name__
    return intrinsic(call)


def _copied(array: FloatArray) -> FloatArray:
    return np.ascontiguousarray(array)


def _code(types: Sequence[Any]) -> str:
    return "_".join(f"{one.dtype}{one.ndim}" for one in types)


def scipy_function(name: str, n_arguments: int) -> Any:
    """A function of ``scipy.special`` from double numbers to one, for compiled functions that are kept on disk."""
    symbol = f"pm_dpgmm_scipy_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address("scipy.special.cython_special", name))
    return numba.types.ExternalFunction(symbol, numba.float64(*[numba.float64] * n_arguments))
