/* ibv_create_cq_ex(3): completions read one at a time. */
#include "case.h"
#include <time.h>

static struct ibv_cq_ex *replace_cq(struct pair *pair, uint32_t cqe, uint32_t flags, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe, .cq_context = pair, .channel = pair->channel,
					    .wc_flags = IBV_WC_STANDARD_FLAGS | wc_flags };
	struct ibv_cq_ex *cq;

	if (flags) {
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		attr.flags = flags;
	}
	cq = ibv_create_cq_ex(pair->context, &attr);
	CHECK(cq != NULL);
	CHECK_EQ(ibv_destroy_cq(pair->cq[1]), 0);
	pair->cq[1] = ibv_cq_ex_to_cq(cq);
	return cq;
}

static struct pair *pair_with_cq_ex(uint32_t cqe, uint32_t flags, uint64_t wc_flags)
{
	struct pair *pair = open_pair();
	int i;

	replace_cq(pair, cqe, flags, wc_flags);
	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
	}
	connect_pair(pair);
	return pair;
}

static void send_with_imm(struct pair *pair, int length, uint32_t imm)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], length, pair->mr[0]->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = imm }, *bad;

	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
}

static void read_fields(uint32_t flags)
{
	struct pair *pair = pair_with_cq_ex(64, flags, 0);
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)pair->cq[1];
	struct ibv_poll_cq_attr attr = { 0 };
	int i;

	CHECK_EQ(ibv_start_poll(cq, &attr), ENOENT);
	for (i = 0; i < 2; i++) {
		post_receive(pair, 1, 100 + i);
		send_with_imm(pair, 10 + i, 0x11223344 + i);
	}
	CHECK_EQ(ibv_start_poll(cq, &attr), 0);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(cq->status, IBV_WC_SUCCESS);
		CHECK_EQ(cq->wr_id, 100 + i);
		CHECK_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		CHECK_EQ(ibv_wc_read_byte_len(cq), 10 + i);
		CHECK_EQ(ibv_wc_read_imm_data(cq), 0x11223344 + i);
		CHECK_EQ(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
		CHECK_EQ(ibv_wc_read_qp_num(cq), pair->qp[1]->qp_num);
		CHECK_EQ(ibv_wc_read_vendor_err(cq), 0);
		CHECK_EQ(ibv_wc_read_slid(cq), 0);
		CHECK_EQ(ibv_wc_read_sl(cq), 0);
		CHECK_EQ(ibv_next_poll(cq), i ? ENOENT : 0);
	}
	ibv_end_poll(cq);
	CHECK_EQ(ibv_start_poll(cq, &attr), ENOENT);

	/* The plain way works on it too. */
	post_receive(pair, 1, 200);
	send_with_imm(pair, 1, 0);
	CHECK_EQ(completion(pair->cq[1]).wr_id, 200);
	close_pair(pair);
}

static void fields(void)
{
	read_fields(0);
}

static void fields_single_threaded(void)
{
	read_fields(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
}

static uint64_t clock_now(struct pair *pair)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK | 1 << 30 };

	CHECK_EQ(ibv_query_rt_values_ex(pair->context, &values), 0);
	CHECK_EQ(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	CHECK_EQ(values.raw_clock.tv_sec, 0);
	return values.raw_clock.tv_nsec;
}

static uint64_t wallclock_now(void)
{
	struct timespec now;

	CHECK_EQ(clock_gettime(CLOCK_REALTIME, &now), 0);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Both clocks lie between a look before the message and one after its completion. */
static void time_stamps(void)
{
	struct pair *pair = pair_with_cq_ex(64, 0, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
							   IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)pair->cq[1];
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_device_attr_ex device;
	uint64_t last = clock_now(pair), last_wallclock = wallclock_now();
	int i;

	CHECK_EQ(ibv_query_device_ex(pair->context, NULL, &device), 0);
	CHECK(device.completion_timestamp_mask == UINT64_MAX);
	CHECK_EQ(device.hca_core_clock, 1000000);
	for (i = 0; i < 3; i++) {
		post_receive(pair, 1, i);
		send_with_imm(pair, 1, 0);
	}
	for (i = 0; i < 3; i++) {
		CHECK_EQ(i ? ibv_next_poll(cq) : ibv_start_poll(cq, &attr), 0);
		CHECK(ibv_wc_read_completion_ts(cq) >= last);
		CHECK(ibv_wc_read_completion_wallclock_ns(cq) >= last_wallclock);
		last = ibv_wc_read_completion_ts(cq);
		last_wallclock = ibv_wc_read_completion_wallclock_ns(cq);
	}
	ibv_end_poll(cq);
	CHECK(last <= clock_now(pair));
	CHECK(last_wallclock <= wallclock_now());
	close_pair(pair);
}

/* Without the flag, completions beyond the CQ's size would make it and its QPs unusable. */
static void an_overrun_that_is_ignored(void)
{
	struct pair *pair = pair_with_cq_ex(2, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, 0);
	int i;

	for (i = 0; i < 5; i++) {
		post_receive(pair, 1, i);
		send_with_imm(pair, 1, 0);
	}
	CHECK_EQ(completion(pair->cq[1]).wr_id, 3);
	CHECK_EQ(completion(pair->cq[1]).wr_id, 4);
	/* What the lost ones stood for has room in the receive queue again. */
	for (i = 0; i < WR_MAX; i++)
		post_receive(pair, 1, 10 + i);
	send_with_imm(pair, 1, 0);
	CHECK_EQ(completion(pair->cq[1]).wr_id, 10);
	close_pair(pair);
}

static void attributes_that_are_not_provided(void)
{
	struct pair *pair = open_pair();
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG };

	CHECK_NULL(ibv_create_cq_ex(pair->context, &attr), EOPNOTSUPP);
	attr.wc_flags = 1ULL << 50;
	CHECK_NULL(ibv_create_cq_ex(pair->context, &attr), EOPNOTSUPP);
	attr.wc_flags = 0;
	attr.comp_mask = 1 << 7;
	CHECK_NULL(ibv_create_cq_ex(pair->context, &attr), EOPNOTSUPP);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1 << 9;
	CHECK_NULL(ibv_create_cq_ex(pair->context, &attr), EOPNOTSUPP);
	attr.comp_mask = 0;
	attr.comp_vector = pair->context->num_comp_vectors;
	CHECK_NULL(ibv_create_cq_ex(pair->context, &attr), EINVAL);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "fields", fields },
		{ "fields_single_threaded", fields_single_threaded },
		{ "time_stamps", time_stamps },
		{ "an_overrun_that_is_ignored", an_overrun_that_is_ignored },
		{ "attributes_that_are_not_provided", attributes_that_are_not_provided },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
