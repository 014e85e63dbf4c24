// SPDX-License-Identifier: GPL-2.0-only
/*
 * A pair of network devices that stamp packets by a clock of their own (PHC), for tests: what one
 * sends, the other receives. The truth is known: the clock is a line of CLOCK_MONOTONIC; the
 * receiver takes the kernel's stamp itself, and keeps how long each packet was in its ring; so does
 * the sender, whose packets wait for the wire, and whose stamps have one place, or many.
 *
 * Parameters can be written at any time, in /sys/module/sockstamp_nic/parameters.
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/seq_file.h>

#define DEVICES 2
#define KEPT 8192 /* packets whose truth is kept in each direction: a power of two */

static long drift_ppb;
module_param(drift_ppb, long, 0444);
MODULE_PARM_DESC(drift_ppb, "How fast the clock gains on CLOCK_MONOTONIC");

static bool precise;
module_param(precise, bool, 0444);
MODULE_PARM_DESC(precise, "The clock has PTP_SYS_OFFSET_PRECISE");

static uint delay_us = 50;
module_param(delay_us, uint, 0444);
MODULE_PARM_DESC(delay_us, "How long the ring waits, unless ethtool -C changes it");

static bool by_address;
module_param(by_address, bool, 0644);
MODULE_PARM_DESC(by_address, "Packets carry the address of their stamp in its place");

static uint send_delay_us;
module_param(send_delay_us, uint, 0444);
MODULE_PARM_DESC(send_delay_us, "How long a sent packet waits for the wire");

static uint late_us;
module_param(late_us, uint, 0444);
MODULE_PARM_DESC(late_us, "How long after it the stamp is handed over");

static uint places;
module_param(places, uint, 0444);
MODULE_PARM_DESC(places, "Stamps of sent packets at one time; 0: each packet has its own");

/* The clock: of all devices, set by nobody but `step_ns`. */
static struct ptp_clock *phc;
static s64 phc_offset = 37 * NSEC_PER_SEC; /* from CLOCK_REALTIME, at `phc_origin` */
static ktime_t phc_origin, phc_origin_real;
static DEFINE_SPINLOCK(phc_lock);

static ktime_t phc_at(ktime_t monotonic)
{
	s64 drifted, since = ktime_sub(monotonic, phc_origin);
	unsigned long flags;

	spin_lock_irqsave(&phc_lock, flags);
	/* Of whole microseconds, so that an hour does not overflow. */
	drifted = div_s64(div_s64(since, 1000) * drift_ppb, 1000000);
	drifted += phc_offset;
	spin_unlock_irqrestore(&phc_lock, flags);
	return ktime_add_ns(phc_origin_real, since + drifted);
}

static int phc_step(const char *value, const struct kernel_param *parameter)
{
	unsigned long flags;
	s64 step;
	int error = kstrtos64(value, 0, &step);

	if (error)
		return error;
	spin_lock_irqsave(&phc_lock, flags);
	phc_offset += step;
	spin_unlock_irqrestore(&phc_lock, flags);
	return 0;
}

static const struct kernel_param_ops phc_step_ops = { .set = phc_step };
module_param_cb(step_ns, &phc_step_ops, NULL, 0200);
MODULE_PARM_DESC(step_ns, "Step the clock by so much");

static int phc_gettimex64(struct ptp_clock_info *info, struct timespec64 *time,
			  struct ptp_system_timestamp *system)
{
	ptp_read_system_prets(system);
	*time = ktime_to_timespec64(phc_at(ktime_get()));
	ptp_read_system_postts(system);
	return 0;
}

static int phc_getcrosststamp(struct ptp_clock_info *info, struct system_device_crosststamp *cross)
{
	unsigned long flags;
	ktime_t now;

	local_irq_save(flags);
	now = ktime_get();
	cross->sys_monoraw = ktime_get_raw();
	local_irq_restore(flags);
	cross->sys_realtime = ktime_mono_to_real(now);
	cross->device = phc_at(now);
	return 0;
}

static int phc_refuse(struct ptp_clock_info *info, const struct timespec64 *time)
{
	return -EOPNOTSUPP;
}

static int phc_refuse_step(struct ptp_clock_info *info, s64 step)
{
	return -EOPNOTSUPP;
}

static int phc_refuse_rate(struct ptp_clock_info *info, long rate)
{
	return -EOPNOTSUPP;
}

static int phc_enable(struct ptp_clock_info *info, struct ptp_clock_request *request, int on)
{
	return -EOPNOTSUPP;
}

static struct ptp_clock_info phc_info = {
	.owner = THIS_MODULE,
	.name = "sockstamp_nic",
	.max_adj = 1,
	.gettimex64 = phc_gettimex64,
	.settime64 = phc_refuse,
	.adjtime = phc_refuse_step,
	.adjfine = phc_refuse_rate,
	.enable = phc_enable,
};

/* Records of packets, for tests. */
struct truth {
	u64 software; /* the kernel's stamp, CLOCK_REALTIME */
	u64 waited; /* in the ring: since the NIC had it, or until it was on the wire */
	u64 length; /* without the header of Ethernet */
};

struct truths {
	struct truth kept[KEPT]; /* the last ones */
	u64 made;
};

static struct truths received, sent;
static DEFINE_SPINLOCK(truths_lock);
static struct dentry *received_file, *sent_file;

static void truth_keep(struct truths *truths, ktime_t software, ktime_t waited, unsigned int length)
{
	struct truth *truth;
	unsigned long flags;

	spin_lock_irqsave(&truths_lock, flags);
	truth = &truths->kept[truths->made++ % KEPT];
	truth->software = ktime_to_ns(software);
	truth->waited = ktime_to_ns(waited);
	truth->length = length;
	spin_unlock_irqrestore(&truths_lock, flags);
}

static int truths_show(struct seq_file *file, void *unused)
{
	const struct truths *truths = file->private;
	u64 i;

	for (i = truths->made > KEPT ? truths->made - KEPT : 0; i < truths->made; i++)
		seq_printf(file, "%llu %llu %llu\n", truths->kept[i % KEPT].software,
			   truths->kept[i % KEPT].waited, truths->kept[i % KEPT].length);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(truths);

/* One device. Packets wait in the ring until the interrupt, which comes `delay_us` after the first.
 */
struct nic {
	struct net_device *dev;
	struct nic *peer;
	struct napi_struct napi;
	struct sk_buff_head ring;
	struct hrtimer interrupt;
	u32 delay_us;
	struct kernel_hwtstamp_config stamping;
	ktime_t late; /* what a packet's address of its stamp leads to: of one packet at a time */

	/* Sent packets until they are on the wire, and then until their stamps are handed over. */
	struct sk_buff_head leaving, left;
	struct hrtimer departure, handover;
	atomic_t taken; /* places of stamps */
	atomic64_t skipped;
};

/* Of a packet in a ring, by CLOCK_MONOTONIC. */
struct in_ring {
	ktime_t since; /* the NIC had it, or the driver */
	ktime_t wire;
	bool has_place; /* for its stamp */
};

#define in_ring(skb) ((struct in_ring *)(skb)->cb)

static enum hrtimer_restart nic_interrupt(struct hrtimer *timer)
{
	struct nic *nic = container_of(timer, struct nic, interrupt);

	napi_schedule(&nic->napi);
	return HRTIMER_NORESTART;
}

static bool nic_stamps(const struct nic *nic, const struct sk_buff *skb)
{
	switch (nic->stamping.rx_filter) {
	case HWTSTAMP_FILTER_NONE:
		return false;
	case HWTSTAMP_FILTER_ALL:
		return true;
	default:
		return skb->protocol == htons(ETH_P_1588);
	}
}

static void nic_deliver(struct nic *nic, struct sk_buff *skb)
{
	ktime_t before = in_ring(skb)->since, now;

	skb->protocol = eth_type_trans(skb, nic->dev);
	if (nic_stamps(nic, skb)) {
		skb_hwtstamps(skb)->hwtstamp = phc_at(before);
		if (by_address) {
			nic->late = phc_at(before);
			skb_shinfo(skb)->tx_flags |= SKBTX_HW_TSTAMP_NETDEV;
			skb_hwtstamps(skb)->netdev_data = &nic->late;
		}
	}
	memset(skb->cb, 0, sizeof(skb->cb));
	now = ktime_get();
	/* As net_timestamp_check() would, a moment later. */
	skb->tstamp = ktime_mono_to_real(now);
	skb->tstamp_type = SKB_CLOCK_REALTIME;
	truth_keep(&received, skb->tstamp, ktime_sub(now, before), skb->len);
	napi_gro_receive(&nic->napi, skb);
}

static int nic_poll(struct napi_struct *napi, int budget)
{
	struct nic *nic = container_of(napi, struct nic, napi);
	struct sk_buff *skb;
	int done = 0;

	while (done < budget && (skb = skb_dequeue(&nic->ring))) {
		nic_deliver(nic, skb);
		done++;
	}
	/* A packet that came after the last look has no interrupt of its own. */
	if (done < budget && napi_complete_done(napi, done) && !skb_queue_empty(&nic->ring))
		napi_schedule(napi);
	return done;
}

/* The peer has it. The sender keeps the packet, to send it again: what the receiver has in common
 * with it is nothing.
 */
static void nic_pass(struct nic *nic, const struct sk_buff *skb, ktime_t now)
{
	struct nic *peer = nic->peer;
	ktime_t delay = ns_to_ktime((u64)peer->delay_us * NSEC_PER_USEC);
	struct sk_buff *copy = skb_copy(skb, GFP_ATOMIC);

	if (!copy || !netif_running(peer->dev)) {
		kfree_skb(copy);
		return;
	}
	skb_scrub_packet(copy, true);
	copy->ip_summed = CHECKSUM_UNNECESSARY;
	in_ring(copy)->since = now;
	dev_sw_netstats_tx_add(nic->dev, 1, copy->len);
	dev_sw_netstats_rx_add(peer->dev, copy->len);
	skb_queue_tail(&peer->ring, copy);
	if (!hrtimer_active(&peer->interrupt))
		hrtimer_start(&peer->interrupt, delay, HRTIMER_MODE_REL_SOFT);
}

/* A timer that runs at this moment may have looked into its queue already. */
static void nic_wait(struct hrtimer *timer, u64 delay_us)
{
	if (!hrtimer_is_queued(timer))
		hrtimer_start(timer, ns_to_ktime(delay_us * NSEC_PER_USEC), HRTIMER_MODE_REL_SOFT);
}

static void nic_hand_over(struct nic *nic, struct sk_buff *skb)
{
	struct skb_shared_hwtstamps stamps = { .hwtstamp = phc_at(in_ring(skb)->wire) };

	skb_tstamp_tx(skb, &stamps);
	atomic_dec(&nic->taken);
	consume_skb(skb);
}

static void nic_depart(struct nic *nic, struct sk_buff *skb)
{
	struct in_ring *in_ring = in_ring(skb);

	in_ring->wire = ktime_get();
	truth_keep(&sent, ktime_mono_to_real(in_ring->since),
		   ktime_sub(in_ring->wire, in_ring->since), skb->len - ETH_HLEN);
	nic_pass(nic, skb, in_ring->wire);
	if (!in_ring->has_place) {
		consume_skb(skb);
	} else if (!late_us) {
		nic_hand_over(nic, skb);
	} else {
		skb_queue_tail(&nic->left, skb);
		nic_wait(&nic->handover, late_us);
	}
}

/* All that wait: a later one has waited less than it should. */
static enum hrtimer_restart nic_departure(struct hrtimer *timer)
{
	struct nic *nic = container_of(timer, struct nic, departure);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&nic->leaving)))
		nic_depart(nic, skb);
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart nic_handover(struct hrtimer *timer)
{
	struct nic *nic = container_of(timer, struct nic, handover);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&nic->left)))
		nic_hand_over(nic, skb);
	return HRTIMER_NORESTART;
}

/* Return true if the packet asks for a stamp, and there is a place for it. */
static bool nic_takes_place(struct nic *nic, const struct sk_buff *skb)
{
	if (!(skb_shinfo(skb)->tx_flags & SKBTX_HW_TSTAMP) ||
	    nic->stamping.tx_type != HWTSTAMP_TX_ON)
		return false;
	if (places && atomic_inc_return(&nic->taken) > places) {
		atomic_dec(&nic->taken);
		atomic64_inc(&nic->skipped);
		return false;
	}
	if (!places)
		atomic_inc(&nic->taken);
	skb_shinfo(skb)->tx_flags |= SKBTX_IN_PROGRESS;
	return true;
}

static netdev_tx_t nic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);

	in_ring(skb)->has_place = nic_takes_place(nic, skb);
	skb_tx_timestamp(skb);
	in_ring(skb)->since = ktime_get();
	if (!send_delay_us) {
		nic_depart(nic, skb);
		return NETDEV_TX_OK;
	}
	skb_queue_tail(&nic->leaving, skb);
	nic_wait(&nic->departure, send_delay_us);
	return NETDEV_TX_OK;
}

static int nic_open(struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);

	napi_enable(&nic->napi);
	netif_carrier_on(dev);
	netif_start_queue(dev);
	return 0;
}

static int nic_stop(struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);

	netif_stop_queue(dev);
	hrtimer_cancel(&nic->departure);
	hrtimer_cancel(&nic->handover);
	hrtimer_cancel(&nic->interrupt);
	napi_disable(&nic->napi);
	skb_queue_purge(&nic->leaving);
	skb_queue_purge(&nic->left);
	skb_queue_purge(&nic->ring);
	atomic_set(&nic->taken, 0);
	return 0;
}

static ktime_t nic_get_tstamp(struct net_device *dev, const struct skb_shared_hwtstamps *stamps,
			      bool cycles)
{
	return *(ktime_t *)stamps->netdev_data;
}

static int nic_hwtstamp_get(struct net_device *dev, struct kernel_hwtstamp_config *config)
{
	struct nic *nic = netdev_priv(dev);

	*config = nic->stamping;
	return 0;
}

static int nic_hwtstamp_set(struct net_device *dev, struct kernel_hwtstamp_config *config,
			    struct netlink_ext_ack *extack)
{
	struct nic *nic = netdev_priv(dev);

	if (config->tx_type != HWTSTAMP_TX_OFF && config->tx_type != HWTSTAMP_TX_ON)
		return -ERANGE;
	if (config->rx_filter != HWTSTAMP_FILTER_NONE && config->rx_filter != HWTSTAMP_FILTER_ALL)
		config->rx_filter = HWTSTAMP_FILTER_PTP_V2_EVENT;
	nic->stamping = *config;
	return 0;
}

static const struct net_device_ops nic_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = nic_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_get_tstamp = nic_get_tstamp,
	.ndo_hwtstamp_get = nic_hwtstamp_get,
	.ndo_hwtstamp_set = nic_hwtstamp_set,
};

static int nic_get_ts_info(struct net_device *dev, struct kernel_ethtool_ts_info *info)
{
	info->so_timestamping = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
				SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_HARDWARE |
				SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	info->phc_index = ptp_clock_index(phc);
	info->tx_types = BIT(HWTSTAMP_TX_OFF) | BIT(HWTSTAMP_TX_ON);
	info->rx_filters = BIT(HWTSTAMP_FILTER_NONE) | BIT(HWTSTAMP_FILTER_ALL) |
			   BIT(HWTSTAMP_FILTER_PTP_V2_EVENT);
	return 0;
}

static int nic_get_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			    struct kernel_ethtool_coalesce *more, struct netlink_ext_ack *extack)
{
	struct nic *nic = netdev_priv(dev);

	coalesce->rx_coalesce_usecs = nic->delay_us;
	return 0;
}

static int nic_set_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			    struct kernel_ethtool_coalesce *more, struct netlink_ext_ack *extack)
{
	struct nic *nic = netdev_priv(dev);

	nic->delay_us = coalesce->rx_coalesce_usecs;
	return 0;
}

/* As igb counts those that found no place. */
static const char nic_statistics[][ETH_GSTRING_LEN] = { "tx_hwtstamp_skipped" };

static int nic_get_sset_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? ARRAY_SIZE(nic_statistics) : -EOPNOTSUPP;
}

static void nic_get_strings(struct net_device *dev, u32 set, u8 *names)
{
	if (set == ETH_SS_STATS)
		memcpy(names, nic_statistics, sizeof(nic_statistics));
}

static void nic_get_statistics(struct net_device *dev, struct ethtool_stats *stats, u64 *counts)
{
	struct nic *nic = netdev_priv(dev);

	counts[0] = atomic64_read(&nic->skipped);
}

static const struct ethtool_ops nic_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS,
	.get_link = ethtool_op_get_link,
	.get_ts_info = nic_get_ts_info,
	.get_sset_count = nic_get_sset_count,
	.get_strings = nic_get_strings,
	.get_ethtool_stats = nic_get_statistics,
	.get_coalesce = nic_get_coalesce,
	.set_coalesce = nic_set_coalesce,
};

static struct nic *nics[DEVICES];

static int nic_add(int index)
{
	struct net_device *dev = alloc_etherdev(sizeof(struct nic));
	struct nic *nic;
	int error;

	if (!dev)
		return -ENOMEM;
	nic = netdev_priv(dev);
	nic->dev = dev;
	nic->delay_us = delay_us;
	snprintf(dev->name, IFNAMSIZ, "nic%d", index);
	dev->netdev_ops = &nic_ops;
	dev->ethtool_ops = &nic_ethtool_ops;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	eth_hw_addr_random(dev);
	netif_napi_add(dev, &nic->napi, nic_poll);
	skb_queue_head_init(&nic->ring);
	skb_queue_head_init(&nic->leaving);
	skb_queue_head_init(&nic->left);
	hrtimer_init(&nic->interrupt, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	nic->interrupt.function = nic_interrupt;
	hrtimer_init(&nic->departure, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	nic->departure.function = nic_departure;
	hrtimer_init(&nic->handover, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	nic->handover.function = nic_handover;
	nics[index] = nic;
	error = register_netdev(dev);
	if (error) {
		free_netdev(dev);
		nics[index] = NULL;
	}
	return error;
}

static void nic_remove_all(void)
{
	int i;

	for (i = 0; i < DEVICES; i++) {
		if (!nics[i])
			continue;
		unregister_netdev(nics[i]->dev);
	}
	for (i = 0; i < DEVICES; i++) {
		if (nics[i])
			free_netdev(nics[i]->dev);
	}
	debugfs_remove(received_file);
	debugfs_remove(sent_file);
	ptp_clock_unregister(phc);
}

static int __init nic_init(void)
{
	int error = 0, i;

	phc_origin = ktime_get();
	phc_origin_real = ktime_mono_to_real(phc_origin);
	if (precise)
		phc_info.getcrosststamp = phc_getcrosststamp;
	phc = ptp_clock_register(&phc_info, NULL);
	if (IS_ERR_OR_NULL(phc))
		return phc ? PTR_ERR(phc) : -ENODEV;
	received_file = debugfs_create_file("sockstamp_nic", 0400, NULL, &received, &truths_fops);
	sent_file = debugfs_create_file("sockstamp_nic_sent", 0400, NULL, &sent, &truths_fops);
	for (i = 0; !error && i < DEVICES; i++)
		error = nic_add(i);
	if (error) {
		nic_remove_all();
		return error;
	}
	for (i = 0; i < DEVICES; i++)
		nics[i]->peer = nics[(i + 1) % DEVICES];
	return 0;
}

static void __exit nic_exit(void)
{
	nic_remove_all();
}

module_init(nic_init);
module_exit(nic_exit);
MODULE_DESCRIPTION("A pair of devices with a clock of known time");
MODULE_LICENSE("GPL");
