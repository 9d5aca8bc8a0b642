/* Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3), and their work requests. */
#include "case.h"

static const uint64_t OPS = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV |
			    IBV_QP_EX_WITH_RDMA_WRITE;

/* A region over B's memory that gives peers nothing but windows. */
static struct ibv_mr *bindable(struct pair *pair)
{
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory[1], sizeof(pair->memory[1]),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);

	CHECK(mr != NULL);
	return mr;
}

/* 64 bytes of B's memory, from byte 128 on. */
static struct ibv_mw_bind_info part_of(struct pair *pair, struct ibv_mr *mr, unsigned int access)
{
	return (struct ibv_mw_bind_info){ mr, (uintptr_t)&pair->memory[1][128], 64, access };
}

/* A writes "window" to B through the key; the status. */
static enum ibv_wc_status write_through(struct pair *pair, uint32_t rkey, uint64_t va)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 6, pair->mr[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { va, rkey },
	}, *bad;

	memcpy(pair->memory[0], "window", 6);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	return completion(pair->cq[0]).status;
}

static struct ibv_wc bind_completion(struct pair *pair, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = completion(pair->cq[1]);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, opcode);
	return wc;
}

static void type_1(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_device_attr attr;
	struct ibv_mr *mr = bindable(pair);
	struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .wr_id = 7, .send_flags = IBV_SEND_SIGNALED };
	uint32_t first;
	uint64_t va;

	CHECK_EQ(ibv_query_device(pair->context, &attr), 0);
	CHECK(attr.max_mw > 0 && attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	CHECK(mw != NULL && mw->type == IBV_MW_TYPE_1 && mw->pd == pair->pd && mw->context == pair->context);
	first = mw->rkey;
	bind.bind_info = part_of(pair, mr, IBV_ACCESS_REMOTE_WRITE);
	va = bind.bind_info.addr;
	CHECK_EQ(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
	CHECK_EQ(mw->rkey, ibv_inc_rkey(first));
	CHECK_EQ(bind_completion(pair, IBV_WC_BIND_MW).wr_id, 7);
	CHECK_EQ(write_through(pair, mw->rkey, va), IBV_WC_SUCCESS);
	CHECK(!memcmp(&pair->memory[1][128], "window", 6));
	CHECK_EQ(ibv_dereg_mr(mr), EBUSY);

	/* Bound to nothing: the region is free, and the key leads nowhere. */
	bind.bind_info = (struct ibv_mw_bind_info){ 0 };
	CHECK_EQ(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
	bind_completion(pair, IBV_WC_BIND_MW);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(write_through(pair, mw->rkey, va), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_pd(pair->pd), EBUSY);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	close_pair(pair);
}

static void type_2(void)
{
	struct pair *pair = connected_pair(OPS);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp[1]), *peer = ibv_qp_to_qp_ex(pair->qp[0]);
	struct ibv_mr *mr = bindable(pair);
	struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = part_of(pair, mr, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);
	struct ibv_send_wr wr = {
		.wr_id = 9,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_device_attr attr;
	struct ibv_wc wc;

	CHECK_EQ(ibv_query_device(pair->context, &attr), 0);
	CHECK(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CHECK(!(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A));
	CHECK(attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = mw->rkey ^ 0x42;
	wr.bind_mw.bind_info = info;
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), 0);
	CHECK_EQ(bind_completion(pair, IBV_WC_BIND_MW).wr_id, 9);
	CHECK_EQ(write_through(pair, wr.bind_mw.rkey, 58), IBV_WC_SUCCESS);
	CHECK(!memcmp(&pair->memory[1][128 + 58], "window", 6));

	/* Taken back by its owner, and by the peer. */
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.invalidate_rkey = wr.bind_mw.rkey;
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), 0);
	bind_completion(pair, IBV_WC_LOCAL_INV);
	ibv_wr_start(qp);
	qp->wr_id = 10;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(mw->rkey), &info);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(bind_completion(pair, IBV_WC_BIND_MW).wr_id, 10);
	CHECK_EQ(write_through(pair, ibv_inc_rkey(mw->rkey), 0), IBV_WC_SUCCESS);
	post_receive(pair, 1, 11);
	ibv_wr_start(peer);
	peer->wr_id = 12;
	peer->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(peer, ibv_inc_rkey(mw->rkey));
	CHECK_EQ(ibv_wr_complete(peer), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	wc = bind_completion(pair, IBV_WC_RECV);
	CHECK_EQ(wc.wr_id, 11);
	CHECK(wc.wc_flags & IBV_WC_WITH_INV);
	CHECK_EQ(wc.invalidated_rkey, ibv_inc_rkey(mw->rkey));
	CHECK_EQ(write_through(pair, ibv_inc_rkey(mw->rkey), 0), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	close_pair(pair);
}

static void requests_that_are_wrong(void)
{
	struct pair *pair = connected_pair(OPS);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp[1]);
	struct ibv_mr *mr = bindable(pair);
	struct ibv_mw *one = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = { .bind_info = part_of(pair, mr, IBV_ACCESS_LOCAL_WRITE) };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;
	struct ibv_pd *other = ibv_alloc_pd(pair->context);

	CHECK_NULL(ibv_alloc_mw(pair->pd, 0), EINVAL);
	CHECK_NULL(ibv_alloc_mw(pair->pd, 3), EINVAL);
	/* Rights that no window gives, and windows that are bound in another way. */
	CHECK_EQ(ibv_bind_mw(pair->qp[1], one, &bind), EINVAL);
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	CHECK_EQ(ibv_bind_mw(pair->qp[1], two, &bind), EINVAL);
	wr.bind_mw.mw = one;
	wr.bind_mw.rkey = one->rkey;
	wr.bind_mw.bind_info = bind.bind_info;
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	/* A key that is not the window's, a window and a region that are not there. */
	wr.bind_mw.mw = two;
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), EINVAL);
	wr.bind_mw.mw = NULL;
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), EINVAL);
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = two->rkey;
	wr.bind_mw.bind_info.mr = NULL;
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), EINVAL);
	ibv_wr_start(qp);
	ibv_wr_bind_mw(qp, one, one->rkey, &bind.bind_info);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	/* What only the device finds out ends the queue. */
	wr.bind_mw.bind_info.mr = pair->mr[1];
	CHECK_EQ(ibv_post_send(pair->qp[1], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_MW_BIND_ERR);
	CHECK_EQ(ibv_dealloc_mw(one), 0);
	CHECK_EQ(ibv_dealloc_mw(two), 0);
	CHECK_EQ(ibv_dealloc_mw(ibv_alloc_mw(other, IBV_MW_TYPE_2)), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "type_1", type_1 },
		{ "type_2", type_2 },
		{ "requests_that_are_wrong", requests_that_are_wrong },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
