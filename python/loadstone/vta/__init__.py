# SPDX-License-Identifier: Apache-2.0
"""The back end for VTA, VTA-Q and VTA-B.

Its folders are stages; each imports only those above it:

    isa/         bits of instructions, assembler, registers
    device/      one device: its file, its sizes and limits, its timing table (devices/ has files)
    meaning/     what each instruction computes; instructions as a listing
    integers/    integers with which a device computes a framework's rule exactly
    stream/      operations on virtual tiles, as records, as columns, as text; their cost
    schedule/    loops of each kind of operator, and the choices that they permit
    kernels/     schedules -> operations
    passes/      operations -> instructions: one file or folder for each pass, with its verifier
    operators/   an operator of the network -> its operations and constants
    region/      the operators that a device takes; operators together -> a program
    backend.py   the back end, as the compiler calls it
    builtin.py   the devices and their back end, as backend/builtin.py finds them
"""
