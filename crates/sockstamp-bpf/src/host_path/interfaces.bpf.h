/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The network devices that messages leave by. A device is an index, and that only within its
 * network namespace, where user space may not be allowed to look and which may be gone when it
 * does: so its name is written down here when it is first seen. A message then holds its place in
 * this table.
 */
#ifndef SOCKSTAMP_HOST_PATH_INTERFACES_BPF_H
#define SOCKSTAMP_HOST_PATH_INTERFACES_BPF_H

#include "abi/abi.h"
#include "histogram/histogram.bpf.h"
#include "kernel/kernel.bpf.h"

/* Limit of probes for an interface before it counts as one without room. */
#define INTERFACE_PROBES 16

const volatile __u32 setting_interface_mask = INTERFACES - 1; /* slots in use, without slot 0 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, INTERFACE_SLOTS);
	__type(key, __u32);
	__type(value, struct interface);
} interfaces SEC(".maps");

static __always_inline struct interface *interface_at(__u32 slot)
{
	return bpf_map_lookup_elem(&interfaces, &slot);
}

/* A device with a parent is on a bus: `device` in its directory of sysfs. */
static __always_inline void interface_describe(struct interface *interface,
					       const struct net_device *device, __u32 cookie)
{
	const struct rtnl_link_ops *ops;

	device = untrusted(device, struct net_device);
	ops = device->rtnl_link_ops;
	/* With all bytes that follow its end, for interface_is_named(). */
	bpf_probe_read_kernel(interface->name, sizeof(interface->name), device->name);
	if (ops)
		bpf_probe_read_kernel_str(interface->kind, sizeof(interface->kind), ops->kind);
	if (device->flags & IFF_LOOPBACK)
		interface->medium = MEDIUM_LOOPBACK;
	else
		interface->medium = device->dev.parent ? MEDIUM_PHYSICAL : MEDIUM_VIRTUAL;
	interface->cookie = cookie;
}

/* Return true if a device has the name that was written down. */
static __always_inline bool interface_is_named(const struct interface *interface,
					       const struct net_device *device)
{
	const __u64 *name = (const void *)interface->name;

	return name[0] == word_at(device->name) && name[1] == word_at(device->name + sizeof(*name));
}

#define INTERFACE_NEW (1U << 31)

/* Slot 0 stands for all that have none. */
static __always_inline __u32 interface_place(__u32 hash)
{
	return 1 + (hash & setting_interface_mask);
}

struct interface_search {
	__u64 id;
	__u32 cookie;
	__u32 found; /* as interface_find() returns it */
};

static long interface_probe(__u32 index, struct interface_search *search)
{
	__u64 id = search->id;
	__u32 place = interface_place((id >> 32) + id + index);
	struct interface *interface = interface_at(place);

	if (!interface)
		return 1;
	if (!interface->id && !__sync_val_compare_and_swap(&interface->id, 0, id))
		search->found = place | INTERFACE_NEW;
	else if (interface->id == id && (!interface->cookie || interface->cookie == search->cookie))
		search->found = place;
	return search->found != 0;
}

/*
 * The slot of a device, with INTERFACE_NEW if it was taken for it; 0 if there is no room. A global
 * function, so that the verifier walks it once.
 */
__noinline __u32 interface_find(__u64 id, __u32 cookie)
{
	struct interface_search search = {.id = id, .cookie = cookie};

	bpf_loop(INTERFACE_PROBES, interface_probe, &search, 0);
	return search.found;
}

/*
 * The slot of a device, taken for it if this is the first time; 0 if there is no room. A device may
 * take another name: its messages have that from then on.
 */
static __always_inline __u32 interface_slot(const struct net_device *device)
{
	const struct net *net = untrusted(device, struct net_device)->nd_net.net;
	__u64 netns = net->ns.inum, id = netns << 32 | (__u32)device->ifindex;
	__u32 slot = interface_place(netns + id), cookie = net->net_cookie;
	struct interface *interface = interface_at(slot);
	bool added = false;

	if (!interface || interface->id != id || interface->cookie != cookie) {
		slot = interface_find(id, cookie);
		added = slot & INTERFACE_NEW;
		slot &= ~INTERFACE_NEW;
		interface = interface_at(slot);
	}
	if (interface && slot && (added || !interface_is_named(interface, device)))
		interface_describe(interface, device, cookie);
	return slot;
}

static __always_inline void interface_count(struct bank *bank, __u32 slot, __u32 weight)
{
	/* Show the bound to the verifier, as in histogram_add(). */
	barrier_var(slot);
	if (slot < INTERFACE_SLOTS)
		count(&bank->interfaces[slot], weight);
}

#endif
