/* XRC: domains, their targets and SRQs, and initiators that reach them. */
#include "case.h"

#include <fcntl.h>

/* An initiator, and a target in a domain with two SRQs. */
struct xrc {
	struct pair *pair;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq[2];
	uint32_t number[2];
	struct ibv_qp *initiator;
	struct ibv_qp *target;
};

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int flags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd, .oflags = flags };

	return ibv_open_xrcd(context, &attr);
}

static struct ibv_srq *make_srq(struct pair *pair, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pair->pd,
		.xrcd = xrcd,
		.cq = pair->cq[1],
	};

	return ibv_create_srq_ex(pair->context, &attr);
}

static void to_rtr_without_responder(struct ibv_qp *qp, uint32_t dest_qp_num)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qp_num,
		.rq_psn = 100,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = GID_INDEX, .hop_limit = 1 } },
	};

	CHECK(!ibv_query_gid(qp->context, 1, GID_INDEX, &attr.ah_attr.grh.dgid));
	CHECK_EQ(ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
		 0);
}

static struct xrc open_xrc(uint64_t send_ops)
{
	struct xrc xrc = { .pair = open_pair() };
	struct ibv_context *context = xrc.pair->context;
	struct ibv_qp_init_attr_ex attr = qp_attr_of(xrc.pair, 0);
	int i;

	xrc.xrcd = open_domain(context, -1, O_CREAT);
	CHECK(xrc.xrcd != NULL && xrc.xrcd->context == context);
	for (i = 0; i < 2; i++) {
		xrc.srq[i] = make_srq(xrc.pair, xrc.xrcd);
		CHECK(xrc.srq[i] != NULL);
		CHECK_EQ(ibv_get_srq_num(xrc.srq[i], &xrc.number[i]), 0);
	}
	CHECK(xrc.number[0] != xrc.number[1]);
	attr.qp_type = IBV_QPT_XRC_SEND;
	if (send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = send_ops;
	}
	xrc.initiator = ibv_create_qp_ex(context, &attr);
	CHECK(xrc.initiator != NULL);
	attr = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrc.xrcd,
					     .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	xrc.target = ibv_create_qp_ex(context, &attr);
	CHECK(xrc.target != NULL);
	CHECK_EQ(to_init(xrc.initiator), 0);
	CHECK_EQ(to_init(xrc.target), 0);
	to_rtr_without_responder(xrc.initiator, xrc.target->qp_num);
	CHECK_EQ(to_rtr(xrc.target, xrc.initiator->qp_num), 0);
	CHECK_EQ(to_rts(xrc.initiator), 0);
	return xrc;
}

static void close_xrc(struct xrc *xrc)
{
	int i;

	CHECK_EQ(ibv_destroy_qp(xrc->initiator), 0);
	CHECK_EQ(ibv_close_xrcd(xrc->xrcd), EBUSY);
	CHECK_EQ(ibv_destroy_qp(xrc->target), 0);
	for (i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_srq(xrc->srq[i]), 0);
	CHECK_EQ(ibv_close_xrcd(xrc->xrcd), 0);
}

static void post_to_srqs(struct xrc *xrc)
{
	struct ibv_sge sge = { (uintptr_t)xrc->pair->memory[1], 64, xrc->pair->mr[1]->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int i;

	for (i = 0; i < 2; i++) {
		wr.wr_id = i;
		CHECK_EQ(ibv_post_srq_recv(xrc->srq[i], &wr, &bad), 0);
	}
}

static void check_received(struct xrc *xrc, int i)
{
	struct ibv_wc wc = completion(xrc->pair->cq[1]);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, i);
	CHECK_EQ(wc.qp_num, xrc->target->qp_num);
	CHECK_EQ(completion(xrc->pair->cq[0]).status, IBV_WC_SUCCESS);
}

static void one_target_and_several_srqs(void)
{
	struct xrc xrc = open_xrc(0);
	struct ibv_sge sge = { (uintptr_t)xrc.pair->memory[0], 8, xrc.pair->mr[0]->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	int i;

	post_to_srqs(&xrc);
	for (i = 1; i >= 0; i--) {
		wr.qp_type.xrc.remote_srqn = xrc.number[i];
		CHECK_EQ(ibv_post_send(xrc.initiator, &wr, &bad), 0);
		check_received(&xrc, i);
	}
	CHECK_EQ(ibv_post_recv(xrc.initiator, &recv, &bad_recv), EINVAL);
	CHECK_EQ(ibv_post_recv(xrc.target, &recv, &bad_recv), EINVAL);
	CHECK_EQ(ibv_post_send(xrc.target, &wr, &bad), EINVAL);
	wr.qp_type.xrc.remote_srqn = 0xabcdef;
	CHECK_EQ(ibv_post_send(xrc.initiator, &wr, &bad), 0);
	CHECK_EQ(completion(xrc.pair->cq[0]).status, IBV_WC_REM_INV_REQ_ERR);
	close_xrc(&xrc);
}

static void built_by_calls(void)
{
	struct xrc xrc = open_xrc(IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(xrc.initiator);
	int i;

	post_to_srqs(&xrc);
	for (i = 1; i >= 0; i--) {
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qp);
		ibv_wr_set_xrc_srqn(qp, xrc.number[i]);
		ibv_wr_set_sge(qp, xrc.pair->mr[0]->lkey, (uintptr_t)xrc.pair->memory[0], 8);
		CHECK_EQ(ibv_wr_complete(qp), 0);
		check_received(&xrc, i);
	}
	/* A request that says nothing of the SRQ. */
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, xrc.pair->mr[0]->lkey, (uintptr_t)xrc.pair->memory[0], 8);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(completion(xrc.pair->cq[0]).status, IBV_WC_LOC_QP_OP_ERR);
	close_xrc(&xrc);
}

/* Everybody who opens the same file has the same domain, and can open its targets. */
static void domains_behind_a_file(void)
{
	struct ibv_context *context[2] = { open_loopback(), open_loopback() };
	char path[] = "/tmp/xrc_case_XXXXXX";
	int file = mkstemp(path);
	int again = open(path, O_RDWR);
	struct ibv_xrcd *xrcd[2];
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp_open_attr open_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_type = IBV_QPT_XRC_RECV,
		.qp_context = context,
	};
	struct ibv_qp *target, *shared;

	CHECK(file >= 0 && again >= 0);
	CHECK(!unlink(path));
	/* As the kernel answers. */
	CHECK_NULL(open_domain(context[0], file, 0), EAGAIN);
	xrcd[0] = open_domain(context[0], file, O_CREAT);
	CHECK(xrcd[0] != NULL);
	CHECK_NULL(open_domain(context[1], again, O_CREAT | O_EXCL), EINVAL);
	xrcd[1] = open_domain(context[1], again, 0);
	CHECK(xrcd[1] != NULL);
	init.xrcd = xrcd[0];
	target = ibv_create_qp_ex(context[0], &init);
	CHECK(target != NULL);
	open_attr.xrcd = xrcd[1];
	open_attr.qp_num = target->qp_num;
	shared = ibv_open_qp(context[1], &open_attr);
	CHECK(shared != NULL);
	CHECK(shared->qp_num == target->qp_num && shared->context == context[1]);
	CHECK(shared->qp_context == context && shared->qp_type == IBV_QPT_XRC_RECV);
	open_attr.qp_num++;
	CHECK_NULL(ibv_open_qp(context[1], &open_attr), EINVAL);
	CHECK_EQ(ibv_close_xrcd(xrcd[1]), EBUSY);
	CHECK_EQ(ibv_destroy_qp(target), 0);
	/* It lives on for whoever has it open. */
	CHECK_EQ(to_init(shared), 0);
	CHECK_EQ(ibv_destroy_qp(shared), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd[1]), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd[0]), 0);
	CHECK_NULL(open_domain(context[0], file, 0), EAGAIN);
	CHECK_NULL(open_domain(context[0], 999, O_CREAT), EBADF);
	/* A domain that nobody shares is always a new one. */
	xrcd[0] = open_domain(context[0], -1, 0);
	xrcd[1] = open_domain(context[0], -1, O_CREAT | O_EXCL);
	CHECK(xrcd[0] != NULL && xrcd[1] != NULL);
	CHECK_EQ(ibv_close_xrcd(xrcd[1]), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd[0]), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "one_target_and_several_srqs", one_target_and_several_srqs },
		{ "built_by_calls", built_by_calls },
		{ "domains_behind_a_file", domains_behind_a_file },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
