// SPDX-License-Identifier: GPL-2.0-only
/*
 * The programs: each a thin wrapper over the feature that it serves, in a header for those that run
 * for the same. Reject first.
 */
#include "kernel/kernel.bpf.h"
#include "bpf/callbacks.bpf.h"
#ifdef SOCKSTAMP_SERIES
#include "bpf/series.bpf.h"
#endif
#include "bpf/streams.bpf.h"
#include "bpf/sockets.bpf.h"
#include "bpf/passing.bpf.h"
#include "bpf/datagrams.bpf.h"
#include "bpf/walks.bpf.h"

char LICENSE[] SEC("license") = "GPL";
