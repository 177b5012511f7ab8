# SPDX-License-Identifier: Apache-2.0
"""The back end for VTA, VTA-Q and VTA-B.

Its folders are stages; each knows those above it only:

    isa/         bits of instructions, assembler, registers; what is generated from them
    device/      one device: its file, its sizes and limits, its timing table (devices/ has files)
    meaning/     what each instruction computes; instructions as a listing
    integers/    integers with which a device computes a framework's rule exactly
    stream/      operations on virtual tiles, as records, as columns, as text; what they cost
    schedule/    loops of each kind of operator, and what may be chosen
    kernels/     schedules -> operations
    passes/      operations -> instructions: one file or folder for each pass, with its verifier
    operators/   an operator of the network -> its operations and constants
    region/      which operators a device takes; operators together -> a program
    backend.py   what the compiler sees
    builtin.py   what backend/builtin.py asks: which devices there are, and their back end
"""
