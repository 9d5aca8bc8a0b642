/* UD: address handles, ibv_init_ah_from_wc(3), the GRH in front of a payload, multicast groups. */
#include "case.h"

enum { QKEY = 0x11111111, GRH = 40, MULTICAST_QPN = 0xffffff };

static void to_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/* UD QPs, made for building requests by calls if there are operations to build. */
static struct pair *datagram_pair(uint64_t send_ops)
{
	struct pair *pair = open_pair();
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		attr.qp_type = IBV_QPT_UD;
		if (send_ops) {
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = send_ops;
		}
		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
		to_datagrams(pair->qp[i]);
	}
	return pair;
}

static struct ibv_ah_attr attr_to(struct pair *pair, int gid_index)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1,
				    .grh = { .sgid_index = gid_index, .hop_limit = 1 } };

	CHECK_EQ(ibv_query_gid(pair->context, 1, gid_index, &attr.grh.dgid), 0);
	return attr;
}

/* The number of a GID that stands for an IPv4 address, or of one that does not. */
static int gid_index(struct pair *pair, bool is_ipv4)
{
	struct ibv_gid_entry entry;
	int i;

	for (i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(pair->context, 1, i, &entry, 0) &&
		    is_ipv4 == !memcmp(entry.gid.raw, "\0\0\0\0\0\0\0\0\0\0\377\377", 12))
			return i;
	return -1;
}

static struct ibv_send_wr send_to(struct ibv_ah *ah, uint32_t qpn, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){ .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				     .send_flags = IBV_SEND_SIGNALED, .imm_data = 0x01020304,
				     .wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY } };
}

/* A datagram there, and the answer to its sender, whom the completion and the header tell. */
static void there_and_back(bool is_ipv4)
{
	struct pair *pair = datagram_pair(0);
	int index = gid_index(pair, is_ipv4);
	struct ibv_ah_attr attr, back;
	struct ibv_sge sge = { (uintptr_t)pair->memory[0] + 4096, 5, pair->mr[0]->lkey };
	struct ibv_send_wr wr, *bad;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	if (index < 0) {
		close_pair(pair);
		return;
	}
	attr = attr_to(pair, index);
	ah = ibv_create_ah(pair->pd, &attr);
	CHECK(ah != NULL && ah->context == pair->context && ah->pd == pair->pd);
	memcpy(pair->memory[0] + 4096, "there", 5);
	post_receive(pair, 1, 7);
	wr = send_to(ah, pair->qp[1]->qp_num, &sge);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	/* What is posted goes on without it. */
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	wc = completion(pair->cq[0]);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	wc = completion(pair->cq[1]);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, 7);
	CHECK_EQ(wc.byte_len, GRH + 5);
	CHECK_EQ(wc.imm_data, 0x01020304);
	CHECK_EQ(wc.src_qp, pair->qp[0]->qp_num);
	CHECK_EQ(wc.qp_num, pair->qp[1]->qp_num);
	CHECK_EQ(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	CHECK(!memcmp(pair->memory[1] + GRH, "there", 5));
	CHECK_EQ(pair->memory[1][is_ipv4 ? 20 : 0] >> 4, is_ipv4 ? 4 : 6);

	memset(&back, 0xff, sizeof(back));
	CHECK_EQ(ibv_init_ah_from_wc(pair->context, 1, &wc, (struct ibv_grh *)pair->memory[1], &back), 0);
	CHECK(!memcmp(&back.grh.dgid, &attr.grh.dgid, sizeof(back.grh.dgid)));
	CHECK_EQ(back.grh.sgid_index, index);
	CHECK(back.is_global == 1 && back.port_num == 1);
	ah = ibv_create_ah_from_wc(pair->pd, &wc, (struct ibv_grh *)pair->memory[1], 1);
	CHECK(ah != NULL);
	sge = (struct ibv_sge){ (uintptr_t)pair->memory[1] + 4096, 4, pair->mr[1]->lkey };
	memcpy(pair->memory[1] + 4096, "back", 4);
	post_receive(pair, 0, 8);
	wr = send_to(ah, wc.src_qp, &sge);
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
	CHECK_EQ(completion(pair->cq[0]).byte_len, GRH + 4);
	CHECK(!memcmp(pair->memory[0] + GRH, "back", 4));
	CHECK_EQ(ibv_destroy_ah(ah), 0);

	/* Without the header nothing leads back. */
	wc.wc_flags = 0;
	errno = 0;
	CHECK_EQ(ibv_init_ah_from_wc(pair->context, 1, &wc, (struct ibv_grh *)pair->memory[1], &back), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_NULL(ibv_create_ah_from_wc(pair->pd, &wc, (struct ibv_grh *)pair->memory[1], 1), EINVAL);
	close_pair(pair);
}

static void there_and_back_over_ipv4(void)
{
	there_and_back(true);
}

static void there_and_back_over_ipv6(void)
{
	there_and_back(false);
}

static void built_by_calls(void)
{
	struct pair *pair = open_pair();
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair->context, &cq_attr);
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_ah_attr ah_attr = attr_to(pair, GID_INDEX);
	struct ibv_ah *ah = ibv_create_ah(pair->pd, &ah_attr);
	struct ibv_qp_ex *qp;
	char text[] = "inline";
	int i, got;

	CHECK(cq != NULL && ah != NULL);
	CHECK_EQ(ibv_destroy_cq(pair->cq[1]), 0);
	pair->cq[1] = ibv_cq_ex_to_cq(cq);
	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		attr.qp_type = IBV_QPT_UD;
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
		CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EOPNOTSUPP);
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
		to_datagrams(pair->qp[i]);
	}
	post_receive(pair, 1, 1);
	post_receive(pair, 1, 2);
	qp = ibv_qp_to_qp_ex(pair->qp[0]);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, ah, pair->qp[1]->qp_num, QKEY);
	ibv_wr_set_sge(qp, pair->mr[0]->lkey, (uintptr_t)pair->memory[0], 3);
	ibv_wr_send_imm(qp, 0x55);
	ibv_wr_set_ud_addr(qp, ah, pair->qp[1]->qp_num, QKEY);
	ibv_wr_set_inline_data(qp, text, 6);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	for (got = 0; got < 2;) {
		if (ibv_start_poll(cq, &poll))
			continue;
		do {
			CHECK_EQ(cq->status, IBV_WC_SUCCESS);
			CHECK_EQ(cq->wr_id, got + 1);
			CHECK_EQ(ibv_wc_read_src_qp(cq), pair->qp[0]->qp_num);
			CHECK_EQ(ibv_wc_read_byte_len(cq), GRH + (got ? 6 : 3));
			CHECK_EQ(ibv_wc_read_wc_flags(cq), IBV_WC_GRH | (got ? IBV_WC_WITH_IMM : 0));
			CHECK_EQ(ibv_wc_read_slid(cq), 0);
			CHECK_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
			got++;
		} while (!ibv_next_poll(cq));
		ibv_end_poll(cq);
	}
	CHECK_EQ(got, 2);

	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, NULL, pair->qp[1]->qp_num, QKEY);
	ibv_wr_set_sge(qp, pair->mr[0]->lkey, (uintptr_t)pair->memory[0], 3);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	/* A request that says nothing of where to. */
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, pair->mr[0]->lkey, (uintptr_t)pair->memory[0], 3);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	for (i = 0; i < 3; i++)
		CHECK_EQ(completion(pair->cq[0]).status, i < 2 ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	close_pair(pair);
}

static void requests_that_are_wrong(void)
{
	struct pair *pair = datagram_pair(0);
	struct ibv_ah_attr good = attr_to(pair, GID_INDEX), attr;
	struct ibv_ah *ah = ibv_create_ah(pair->pd, &good);
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 5, pair->mr[0]->lkey };
	enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
					 IBV_WR_SEND_WITH_INV };
	struct ibv_send_wr wr, last, *bad = NULL;
	struct ibv_port_attr port;
	unsigned int i;

	attr = good;
	attr.is_global = 0;
	CHECK_NULL(ibv_create_ah(pair->pd, &attr), EINVAL);
	attr = good;
	attr.port_num = 2;
	CHECK_NULL(ibv_create_ah(pair->pd, &attr), EINVAL);
	attr = good;
	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	CHECK_NULL(ibv_create_ah(pair->pd, &attr), EINVAL);
	CHECK_NULL(ibv_create_ah(pair->pd, NULL), EINVAL);
	CHECK_NULL(ibv_create_ah(NULL, &good), EINVAL);
	CHECK_EQ(ibv_destroy_ah(NULL), EINVAL);

	for (i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		wr = send_to(ah, pair->qp[1]->qp_num, &sge);
		last = send_to(ah, pair->qp[1]->qp_num, &sge);
		last.opcode = opcodes[i];
		wr.next = &last;
		CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
		CHECK(bad == &last);
		CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	}
	wr = send_to(NULL, pair->qp[1]->qp_num, &sge);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
	CHECK(bad == &wr);

	/* A datagram is one packet. */
	CHECK_EQ(ibv_query_port(pair->context, 1, &port), 0);
	sge.length = (128 << port.active_mtu) + 1;
	wr = send_to(ah, pair->qp[1]->qp_num, &sge);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dealloc_pd(pair->pd), EBUSY);
	close_pair(pair);
}

/* A PD waits for its address handles, and a QP may only use those of its own PD. */
/* The port counts datagrams that it drops for their Q_Key. */
static void violations_are_counted(void)
{
	struct pair *pair = datagram_pair(0);
	struct ibv_ah_attr attr = attr_to(pair, GID_INDEX);
	struct ibv_ah *ah = ibv_create_ah(pair->pd, &attr);
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 5, pair->mr[0]->lkey };
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int i;

	CHECK_EQ(ibv_query_device(pair->context, &device), 0);
	CHECK(device.device_cap_flags & IBV_DEVICE_BAD_PKEY_CNTR);
	CHECK(device.device_cap_flags & IBV_DEVICE_BAD_QKEY_CNTR);
	post_receive(pair, 1, 7);
	for (i = 2; i >= 0; i--) {
		struct ibv_send_wr wr = send_to(ah, pair->qp[1]->qp_num, &sge), *bad;

		wr.wr.ud.remote_qkey += i;
		CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
		CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	}
	/* The last one, which is right, came behind the others. */
	CHECK_EQ(completion(pair->cq[1]).wr_id, 7);
	CHECK_EQ(ibv_query_port(pair->context, 1, &port), 0);
	CHECK_EQ(port.qkey_viol_cntr, 2);
	CHECK_EQ(port.bad_pkey_cntr, 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	close_pair(pair);
}

static void handles_of_another_pd(void)
{
	struct pair *pair = datagram_pair(0);
	struct ibv_pd *other = ibv_alloc_pd(pair->context);
	struct ibv_ah_attr attr = attr_to(pair, GID_INDEX);
	struct ibv_ah *ah = ibv_create_ah(other, &attr);
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 5, pair->mr[0]->lkey };
	struct ibv_send_wr wr = send_to(ah, pair->qp[1]->qp_num, &sge), *bad;

	CHECK(ah != NULL);
	CHECK_EQ(ibv_dealloc_pd(other), EBUSY);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	close_pair(pair);
}

static void groups(void)
{
	struct pair *pair = datagram_pair(0);
	struct ibv_ah_attr attr = attr_to(pair, GID_INDEX);
	struct ibv_sge sge = { (uintptr_t)pair->memory[0] + 4096, 5, pair->mr[0]->lkey };
	struct ibv_qp_init_attr_ex rc_attr = qp_attr_of(pair, 0);
	struct ibv_qp *rc = ibv_create_qp_ex(pair->context, &rc_attr);
	union ibv_gid group = attr.grh.dgid, no_group = attr.grh.dgid;
	pid_t pid = getpid();
	struct ibv_send_wr wr, *bad;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	int i;

	/* Everybody on the host hears a group, should this be the host's network. */
	group.raw[12] = 239;
	group.raw[13] = 254;
	group.raw[14] = pid >> 8;
	group.raw[15] = pid;
	CHECK_EQ(ibv_attach_mcast(rc, &group, 0), EINVAL);
	CHECK_EQ(ibv_attach_mcast(pair->qp[0], &no_group, 0), EINVAL);
	CHECK_EQ(ibv_detach_mcast(pair->qp[0], &group, 0), EINVAL);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(ibv_attach_mcast(pair->qp[i], &group, 0), 0);
		CHECK_EQ(ibv_attach_mcast(pair->qp[i], &group, 0), 0);
		post_receive(pair, i, 40 + i);
	}
	attr.grh.dgid = group;
	ah = ibv_create_ah(pair->pd, &attr);
	CHECK(ah != NULL);
	wr = send_to(ah, MULTICAST_QPN, &sge);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	for (i = 0; i < 2; i++) {
		do {
			wc = completion(pair->cq[i]);
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		} while (wc.opcode == IBV_WC_SEND);
		CHECK_EQ(wc.wr_id, 40 + i);
		CHECK_EQ(wc.byte_len, GRH + 5);
	}
	CHECK_EQ(ibv_destroy_qp(pair->qp[1]), EBUSY);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(ibv_detach_mcast(pair->qp[i], &group, 0), 0);
		CHECK_EQ(ibv_detach_mcast(pair->qp[i], &group, 0), EINVAL);
	}
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(rc), 0);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "there_and_back_over_ipv4", there_and_back_over_ipv4 },
		{ "there_and_back_over_ipv6", there_and_back_over_ipv6 },
		{ "built_by_calls", built_by_calls },
		{ "requests_that_are_wrong", requests_that_are_wrong },
		{ "violations_are_counted", violations_are_counted },
		{ "handles_of_another_pd", handles_of_another_pd },
		{ "groups", groups },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
