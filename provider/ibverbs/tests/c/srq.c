/* Shared receive queues. */
#include "case.h"

static struct ibv_srq *make_srq(struct pair *pair, uint32_t max_wr)
{
	struct ibv_srq_init_attr attr = { .srq_context = pair, .attr = { .max_wr = max_wr, .max_sge = 2 } };
	struct ibv_srq *srq = ibv_create_srq(pair->pd, &attr);

	CHECK(srq != NULL);
	CHECK(srq->context == pair->context && srq->pd == pair->pd && srq->srq_context == pair);
	CHECK_EQ(attr.attr.max_wr, max_wr);
	return srq;
}

static int post(struct pair *pair, struct ibv_srq *srq, uint64_t wr_id, int count)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory[1], sizeof(pair->memory[1]), pair->mr[1]->lkey };
	struct ibv_recv_wr wr[8], *bad = NULL;
	int i, result;

	for (i = 0; i < count; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = wr_id + i, .sg_list = &sge, .num_sge = 1,
					      .next = i + 1 < count ? &wr[i + 1] : NULL };
	result = ibv_post_srq_recv(srq, wr, &bad);
	if (result)
		CHECK(bad == &wr[count - 1]);
	return result;
}

static struct pair *pair_on(struct pair *pair, struct ibv_srq *srq)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		attr.srq = i ? srq : NULL;
		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
		CHECK(pair->qp[i]->srq == attr.srq);
	}
	connect_pair(pair);
	return pair;
}

static void send_one(struct pair *pair)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
}

/* D13 */
static void overflow(void)
{
	struct pair *pair = open_pair();
	struct ibv_srq *srq = make_srq(pair, 4);
	struct ibv_sge sges[3] = { { 0 } };
	struct ibv_recv_wr wr = { .sg_list = sges, .num_sge = 3 }, *bad = NULL;
	int i;

	pair_on(pair, srq);
	CHECK_EQ(post(pair, srq, 0, 5), ENOMEM);
	for (i = 0; i < 4; i++)
		send_one(pair);
	/* Room comes with the completions. */
	CHECK_EQ(post(pair, srq, 9, 1), ENOMEM);
	for (i = 0; i < 4; i++) {
		struct ibv_wc wc = completion(pair->cq[1]);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.qp_num, pair->qp[1]->qp_num);
	}
	CHECK_EQ(post(pair, srq, 10, 4), 0);
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	wr.num_sge = 0;
	CHECK_EQ(ibv_post_recv(pair->qp[1], &wr, &bad), EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq), EBUSY);
	for (i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_qp(pair->qp[i]), 0);
	CHECK_EQ(ibv_dealloc_pd(pair->pd), EBUSY);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void attributes(void)
{
	struct pair *pair = open_pair();
	struct ibv_srq *srq = make_srq(pair, 4);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_device_attr device;
	struct ibv_srq_attr attr = { 0 };
	uint32_t number;

	CHECK_EQ(ibv_query_device(pair->context, &device), 0);
	CHECK(device.max_srq > 0 && device.max_srq_wr >= 1024 && device.max_srq_sge >= 1);
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK(attr.max_wr == 4 && attr.max_sge == 2 && attr.srq_limit == 0);
	CHECK_EQ(post(pair, srq, 0, 3), 0);
	attr.max_wr = 2;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.srq_limit = 5;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	CHECK_EQ(ibv_modify_srq(srq, &attr, 1 << 5), EINVAL);
	CHECK_EQ(ibv_modify_srq(srq, &attr, 0), 0);
	attr = (struct ibv_srq_attr){ .max_wr = 8, .srq_limit = 6 };
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK(attr.max_wr == 8 && attr.max_sge == 2 && attr.srq_limit == 6);
	CHECK_EQ(post(pair, srq, 3, 5), 0);
	CHECK_EQ(post(pair, srq, 8, 1), ENOMEM);
	CHECK_EQ(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_srq(srq), 0);

	init.attr.max_wr = device.max_srq_wr + 1;
	CHECK_NULL(ibv_create_srq(pair->pd, &init), EINVAL);
	init.attr.max_wr = 1;
	init.attr.max_sge = device.max_srq_sge + 1;
	CHECK_NULL(ibv_create_srq(pair->pd, &init), EINVAL);
	CHECK_NULL(ibv_create_srq(NULL, &init), EINVAL);
	CHECK_NULL(ibv_create_srq(pair->pd, NULL), EINVAL);
}

static void created_by_its_type(void)
{
	struct pair *pair = open_pair();
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 2, .max_sge = 1 },
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					     .srq_type = IBV_SRQT_BASIC, .pd = pair->pd };
	struct ibv_srq *srq = ibv_create_srq_ex(pair->context, &attr);

	CHECK(srq != NULL);
	CHECK_EQ(post(pair, srq, 0, 2), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_PD;
	srq = ibv_create_srq_ex(pair->context, &attr);
	CHECK(srq != NULL);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	CHECK_NULL(ibv_create_srq_ex(pair->context, &attr), EINVAL);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	attr.srq_type = IBV_SRQT_XRC;
	CHECK_NULL(ibv_create_srq_ex(pair->context, &attr), EINVAL);
	attr.srq_type = IBV_SRQT_TM;
	CHECK_NULL(ibv_create_srq_ex(pair->context, &attr), EOPNOTSUPP);
}

/* The limit's event comes once, and the last WQE's when the QP is in the error state. */
static void events(void)
{
	struct pair *pair = open_pair();
	struct ibv_srq *srq = make_srq(pair, 8);
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;
	int i;

	pair_on(pair, srq);
	CHECK_EQ(post(pair, srq, 0, 3), 0);
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	for (i = 0; i < 2; i++) {
		send_one(pair);
		CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
	}
	do {
		CHECK_EQ(ibv_get_async_event(pair->context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	CHECK_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == srq);
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 0);
	CHECK_EQ(ibv_modify_qp(pair->qp[1], &error, IBV_QP_STATE), 0);
	CHECK_EQ(ibv_get_async_event(pair->context, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(event.element.qp == pair->qp[1]);
	ibv_ack_async_event(&event);
	CHECK_EQ(ibv_destroy_qp(pair->qp[1]), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "overflow", overflow },
		{ "attributes", attributes },
		{ "created_by_its_type", created_by_its_type },
		{ "events", events },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
