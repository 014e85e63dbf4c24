/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * List the memory of applications that still exists. A map vanishes from the walk when nothing has
 * a descriptor or a mapping of it (bpf_map_free_id() at the last bpf_map_put(),
 * kernel/bpf/syscall.c, v6.1 to v7.3). No system call reports that without CAP_SYS_ADMIN
 * (BPF_MAP_GET_FD_BY_ID).
 */
#ifndef SOCKSTAMP_COMPLETIONS_ALIVE_BPF_H
#define SOCKSTAMP_COMPLETIONS_ALIVE_BPF_H

#include "completions/area.bpf.h"

/* BPF_OBJ_NAME_LEN - 1 characters; as Publisher::give_memory(). */
#define AREAS_NAME "sockstamp_areas"

static __always_inline void area_exists(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_map *map = ctx->map;
	char name[sizeof(map->name)];
	__u32 id;

	if (!map)
		return;
	BPF_CORE_READ_INTO(&name, map, name);
	if (bpf_strncmp(name, sizeof(AREAS_NAME), AREAS_NAME))
		return;
	id = map->id;
	bpf_seq_write(ctx->meta->seq, &id, sizeof(id));
}

#endif
