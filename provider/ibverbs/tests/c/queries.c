/* What devices, ports, tables and objects answer, and how they refuse. */
#include "case.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* `size` writable bytes before a page that must not be touched. */
static void *before_a_guard_page(size_t size)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	CHECK(!mprotect(pages + page, page, PROT_NONE));
	memset(pages, 0xee, page);
	return pages + page - size;
}

/* D25 */
static void port_attributes_of_every_size(void)
{
	struct ibv_context *context = open_loopback();
	struct verbs_context *extended = verbs_get_ctx_op(context, query_port);
	int (*exported)(struct ibv_context *, uint8_t, void *) = dlsym(RTLD_DEFAULT, "ibv_query_port");
	size_t sizes[] = { 48, 52, 56 };
	struct ibv_port_attr *attr;
	unsigned int i;

	attr = before_a_guard_page(48);
	CHECK_EQ(exported(context, 1, attr), 0);
	CHECK_EQ(attr->state, IBV_PORT_ACTIVE);
	CHECK_EQ(attr->link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK(extended != NULL);
	for (i = 0; i < 3; i++) {
		attr = before_a_guard_page(sizes[i]);
		CHECK_EQ(extended->query_port(context, 1, attr, sizes[i]), 0);
		CHECK_EQ(attr->max_mtu, IBV_MTU_4096);
	}
	CHECK_EQ(exported(context, 2, attr), EINVAL);
	CHECK_EQ(exported(context, 0, attr), EINVAL);
	CHECK_EQ(ibv_close_device(context), 0);
}

static void device_attributes_of_every_size(void)
{
	struct ibv_context *context = open_loopback();
	struct verbs_context *extended = verbs_get_ctx_op(context, query_device_ex);
	struct ibv_query_device_ex_input unknown = { .comp_mask = 1 };
	size_t sizes[] = { 232, 240, 352, sizeof(struct ibv_device_attr_ex) };
	struct ibv_device_attr attr;
	unsigned int i;

	CHECK_EQ(ibv_query_device(context, &attr), 0);
	CHECK_EQ(attr.phys_port_cnt, 1);
	CHECK_EQ(attr.node_guid, ibv_get_device_guid(context->device));
	CHECK_EQ(attr.vendor_id, 0xffffff);
	CHECK(attr.max_qp_rd_atom >= 16 && attr.max_sge >= 32 && context->num_comp_vectors >= 1);
	for (i = 0; i < 4; i++) {
		struct ibv_device_attr_ex *ex = before_a_guard_page(sizes[i]);

		CHECK_EQ(extended->query_device_ex(context, NULL, ex, sizes[i]), 0);
		CHECK_EQ(ex->orig_attr.max_qp, attr.max_qp);
	}
	CHECK_EQ(extended->query_device_ex(context, NULL, before_a_guard_page(232), 100), EINVAL);
	CHECK_EQ(extended->query_device_ex(context, &unknown, before_a_guard_page(400), 400), EINVAL);
	CHECK_EQ(ibv_close_device(context), 0);
}

/* D21: perftest, UCX and NCCL rely on how an empty entry answers. */
static void gid_table(void)
{
	static const union ibv_gid zero;
	struct ibv_context *context = open_loopback();
	struct ibv_gid_entry entry, table[64];
	struct ibv_port_attr port;
	union ibv_gid gid;
	ssize_t count;
	int i, found = 0;

	CHECK_EQ(ibv_query_port(context, 1, &port), 0);
	for (i = 0; i < port.gid_tbl_len; i++) {
		int ex = ibv_query_gid_ex(context, 1, i, &entry, 0);

		CHECK_EQ(ibv_query_gid(context, 1, i, &gid), 0);
		if (!memcmp(&gid, &zero, sizeof(gid))) {
			CHECK_EQ(ex, ENODATA);
			continue;
		}
		CHECK_EQ(ex, 0);
		CHECK(!memcmp(&entry.gid, &gid, sizeof(gid)));
		CHECK_EQ(entry.gid_index, i);
		CHECK_EQ(entry.port_num, 1);
		CHECK_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
		CHECK(entry.ndev_ifindex > 0);
		found++;
	}
	CHECK(found >= 1);
	count = ibv_query_gid_table(context, table, 64, 0);
	CHECK_EQ(count, found);
	CHECK_EQ(ibv_query_gid_table(context, table, 0, 0), -EINVAL);
	CHECK_EQ(ibv_query_gid_ex(context, 1, port.gid_tbl_len, &entry, 0), EINVAL);
	CHECK_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
	CHECK_EQ(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
	CHECK_EQ(ibv_query_gid(context, 1, -1, &gid), -1);
	CHECK_EQ(ibv_query_gid(context, 3, 0, &gid), -1);
	CHECK_EQ(ibv_close_device(context), 0);
}

/* D21: the kernel answers ENODATA here too, from Linux 5.10 on. */
static void path_over_an_empty_gid(void)
{
	struct pair *pair = open_pair();
	struct ibv_qp_init_attr_ex init = qp_attr_of(pair, 0);
	struct ibv_qp *qp = ibv_create_qp_ex(pair->context, &init);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 17,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_port_attr port;

	CHECK(qp != NULL);
	CHECK_EQ(to_init(qp), 0);
	CHECK_EQ(ibv_query_gid(pair->context, 1, GID_INDEX, &attr.ah_attr.grh.dgid), 0);
	CHECK_EQ(ibv_query_port(pair->context, 1, &port), 0);
	attr.ah_attr.grh.sgid_index = port.gid_tbl_len - 1;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), ENODATA);
	CHECK_EQ(qp->state, IBV_QPS_INIT);
	attr.ah_attr.grh.sgid_index = port.gid_tbl_len;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void pkey_table(void)
{
	struct ibv_context *context = open_loopback();
	__be16 pkey = 0;

	CHECK_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
	CHECK_EQ(pkey, 0xffff);
	CHECK_EQ(ibv_query_pkey(context, 1, 1, &pkey), -1);
	CHECK_EQ(ibv_get_pkey_index(context, 1, 0xffff), 0);
	CHECK_EQ(ibv_get_pkey_index(context, 1, 0x1234), -1);
	CHECK_EQ(ibv_close_device(context), 0);
}

static void device_list(void)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count), **again;
	struct ibv_device *device;
	struct ibv_context *context;

	CHECK(list != NULL && count == 1 && list[1] == NULL);
	device = list[0];
	again = ibv_get_device_list(NULL);
	CHECK(again[0] == device);
	ibv_free_device_list(again);
	CHECK_EQ(device->node_type, IBV_NODE_CA);
	CHECK_EQ(device->transport_type, IBV_TRANSPORT_IB);
	CHECK(!strncmp(device->dev_name, "uverbs", 6));
	CHECK(!strcmp(strrchr(device->ibdev_path, '/'), "/ferroce_lo"));
	context = ibv_open_device(device);
	CHECK(context != NULL);
	ibv_free_device_list(list);
	/* An open context keeps its device. */
	CHECK(context->device == device && !strcmp(ibv_get_device_name(device), "ferroce_lo"));
	CHECK_EQ(ibv_close_device(context), 0);
}

static void qp_attributes(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(pair->qp[0]->state, IBV_QPS_RTS);
	CHECK_EQ(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS);
	CHECK_EQ(attr.path_mtu, IBV_MTU_1024);
	CHECK_EQ(attr.dest_qp_num, pair->qp[1]->qp_num);
	CHECK_EQ(attr.timeout, 14);
	CHECK_EQ(attr.cap.max_send_wr, WR_MAX);
	CHECK_EQ(init.cap.max_inline_data, INLINE_MAX);
	CHECK(init.send_cq == pair->cq[0] && init.recv_cq == pair->cq[0]);
	CHECK_EQ(init.qp_type, IBV_QPT_RC);

	/* A refused change leaves everything as it was. */
	attr.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE), EINVAL);
	CHECK_EQ(ibv_modify_qp(pair->qp[0], &attr, 1 << 30), EINVAL);
	CHECK_EQ(pair->qp[0]->state, IBV_QPS_RTS);

	/* An error is seen by a query, which brings the field up to date. */
	attr.qp_state = IBV_QPS_ERR;
	CHECK_EQ(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE), 0);
	CHECK_EQ(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	close_pair(pair);
}

static void objects_in_use(void)
{
	struct pair *pair = connected_pair(0);

	CHECK_EQ(ibv_dealloc_pd(pair->pd), EBUSY);
	CHECK_EQ(ibv_destroy_cq(pair->cq[0]), EBUSY);
	CHECK_EQ(ibv_destroy_comp_channel(pair->channel), EBUSY);
	close_pair(pair);
}

static void arguments_that_are_wrong(void)
{
	struct pair *pair = open_pair();
	struct ibv_context *other = open_loopback();
	struct ibv_pd *other_pd = ibv_alloc_pd(other);
	struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, 0);
	char byte;

	CHECK_NULL(ibv_create_cq(pair->context, 0, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(pair->context, -1, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(pair->context, 1 << 30, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(pair->context, 1, NULL, NULL, -1), EINVAL);
	CHECK_EQ(ibv_resize_cq(pair->cq[0], 0), EINVAL);
	CHECK_EQ(ibv_resize_cq(pair->cq[0], 128), 0);
	CHECK(pair->cq[0]->cqe >= 128);

	CHECK_NULL(ibv_reg_mr(pair->pd, &byte, 1, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CHECK_NULL(ibv_reg_mr(pair->pd, &byte, 1, 1 << 15), EINVAL);
	CHECK_NULL(ibv_reg_mr(pair->pd, (void *)4096, 1, IBV_ACCESS_LOCAL_WRITE), EFAULT);

	attr.send_cq = NULL;
	CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EINVAL);
	attr = qp_attr_of(pair, 0);
	attr.pd = other_pd;
	CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EINVAL);
	attr = qp_attr_of(pair, 0);
	attr.cap.max_send_wr = 1 << 30;
	CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EINVAL);
	attr = qp_attr_of(pair, 0);
	attr.cap.max_inline_data = 1 << 20;
	CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EINVAL);
	attr = qp_attr_of(pair, 0);
	attr.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS;
	CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EINVAL);
}

/* Relaxed ordering and whatever else is optional never makes a registration fail. */
static void optional_access_flags(void)
{
	struct pair *pair = open_pair();
	unsigned int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | 1 << 27;
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory[0], 100, flags);
	struct ibv_mr *moved = ibv_reg_mr_iova(pair->pd, pair->memory[0], 100, 0x1000, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr != NULL && moved != NULL);
	CHECK(mr->addr == pair->memory[0] && mr->length == 100 && mr->pd == pair->pd);
	CHECK(mr->context == pair->context && mr->lkey != moved->lkey);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dereg_mr(moved), 0);
}

static void features_that_are_not_provided(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_qp_init_attr_ex attr;
	int types[] = { IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER };
	struct ibv_ece ece;
	unsigned int i;

	CHECK_EQ(ibv_query_ece(pair->qp[0], &ece), EOPNOTSUPP);
	for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
		attr = qp_attr_of(pair, 0);
		attr.qp_type = types[i];
		CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EOPNOTSUPP);
	}
	close_pair(pair);
}

static void null_pointers(void)
{
	struct ibv_qp_attr attr = { 0 };

	CHECK_NULL(ibv_open_device(NULL), EINVAL);
	CHECK_NULL(ibv_alloc_pd(NULL), EINVAL);
	CHECK_NULL(ibv_create_comp_channel(NULL), EINVAL);
	CHECK_NULL(ibv_create_qp(NULL, NULL), EINVAL);
	CHECK_EQ(ibv_modify_qp(NULL, &attr, IBV_QP_STATE), EINVAL);
	CHECK_EQ(ibv_dereg_mr(NULL), EINVAL);
	CHECK_EQ(ibv_destroy_qp(NULL), EINVAL);
	ibv_free_device_list(NULL);
}

/* A forked child cannot use the parent's objects, and can open a device of its own. */
static void forked_child(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad_send;
	struct ibv_cq *cq;
	void *context;
	int status = -1;
	pid_t child;

	CHECK_EQ(ibv_fork_init(), 0);
	CHECK_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	/* A completion and an event that wait, and that the child must leave alone. */
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	post_receive(pair, 1, 1);
	CHECK_EQ(ibv_post_send(pair->qp[0], &send, &bad_send), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct ibv_recv_wr wr = { 0 }, *bad = NULL;
		struct ibv_wc wc;

		CHECK_NULL(ibv_alloc_pd(pair->context), EIO);
		CHECK(ibv_poll_cq(pair->cq[1], 1, &wc) < 0);
		CHECK_EQ(ibv_destroy_qp(pair->qp[1]), EIO);
		CHECK_EQ(ibv_destroy_cq(pair->cq[1]), EIO);
		CHECK_EQ(ibv_post_recv(pair->qp[0], &wr, &bad), EIO);
		CHECK(bad == &wr);
		close_pair(connected_pair(0));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
	CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
	close_pair(pair);
}

/* The device has as many CQs as it says. */
static void every_cq_there_is(void)
{
	struct ibv_context *context = open_loopback();
	struct ibv_device_attr attr;
	struct ibv_cq **cqs;
	int i, n;

	CHECK_EQ(ibv_query_device(context, &attr), 0);
	cqs = calloc(attr.max_cq, sizeof(*cqs));
	for (n = 0; n < attr.max_cq; n++) {
		cqs[n] = ibv_create_cq(context, 1, NULL, NULL, 0);
		CHECK(cqs[n] != NULL);
	}
	CHECK_NULL(ibv_create_cq(context, 1, NULL, NULL, 0), ENOMEM);
	for (i = 0; i < n; i++)
		CHECK_EQ(ibv_destroy_cq(cqs[i]), 0);
	free(cqs);
	CHECK_EQ(ibv_close_device(context), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "port_attributes_of_every_size", port_attributes_of_every_size },
		{ "device_attributes_of_every_size", device_attributes_of_every_size },
		{ "gid_table", gid_table },
		{ "path_over_an_empty_gid", path_over_an_empty_gid },
		{ "pkey_table", pkey_table },
		{ "device_list", device_list },
		{ "qp_attributes", qp_attributes },
		{ "objects_in_use", objects_in_use },
		{ "arguments_that_are_wrong", arguments_that_are_wrong },
		{ "optional_access_flags", optional_access_flags },
		{ "features_that_are_not_provided", features_that_are_not_provided },
		{ "null_pointers", null_pointers },
		{ "forked_child", forked_child },
		{ "every_cq_there_is", every_cq_there_is },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
